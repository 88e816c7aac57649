"""The demonstration: a CRM and an ERP, two PostgreSQL databases that the connector keeps equal."""
