-- The CRM: what its people change. The connector reads these tables.

CREATE TABLE customer (
    customer_number text PRIMARY KEY,
    name            text NOT NULL,
    street          text,
    postal_code     text,
    city            text NOT NULL,
    credit_limit    numeric(15, 2) NOT NULL,
    customer_since  date NOT NULL,
    is_active       boolean NOT NULL,
    modified_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON customer (modified_at, customer_number);

CREATE TABLE customer_order (
    order_number    text PRIMARY KEY,
    customer_number text NOT NULL REFERENCES customer,
    ordered_on      date NOT NULL,
    amount          numeric(15, 2) NOT NULL,
    status          integer NOT NULL,
    note            text,
    modified_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON customer_order (modified_at, order_number);

-- What was deleted is not there to be read: this is how the connector hears of it.
CREATE TABLE deleted_order (
    order_number text NOT NULL,
    deleted_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON deleted_order (deleted_at, order_number);

CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NEW.modified_at = clock_timestamp(); RETURN NEW; END $$;
CREATE TRIGGER touch BEFORE UPDATE ON customer FOR EACH ROW EXECUTE FUNCTION touch();
CREATE TRIGGER touch BEFORE UPDATE ON customer_order FOR EACH ROW EXECUTE FUNCTION touch();

CREATE FUNCTION bury() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO deleted_order VALUES (OLD.order_number); RETURN OLD; END $$;
CREATE TRIGGER bury BEFORE DELETE ON customer_order FOR EACH ROW EXECUTE FUNCTION bury();
