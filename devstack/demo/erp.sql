-- The ERP: the connector writes these tables, and they have rules of their own.

CREATE TABLE business_partner (
    partner_number  text PRIMARY KEY,
    name            text NOT NULL,
    street          text,
    postal_code     text,
    city            text NOT NULL,
    credit_limit    numeric(15, 2) NOT NULL,
    partner_since   date NOT NULL,
    is_active       boolean NOT NULL,
    crm_modified_at timestamptz,
    -- Nobody gets more credit than the bank has agreed to.
    CONSTRAINT credit_limit_agreed CHECK (credit_limit <= 100000)
);

CREATE TABLE sales_order (
    document_number text PRIMARY KEY,
    partner_number  text NOT NULL REFERENCES business_partner,
    document_date   date NOT NULL,
    amount          numeric(15, 2) NOT NULL,
    status          text NOT NULL,
    note            text,
    crm_modified_at timestamptz
);
CREATE INDEX ON sales_order (partner_number);
