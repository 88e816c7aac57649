"""What keeps the app healthy and shows how it is: health, queue depth, maintenance."""
