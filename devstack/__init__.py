"""What a person needs to run Gleichlauf without Azure: servers on loopback, and a demo."""
