-- What tells the runs of this ledger from those of another in one Dagster instance. A dump has it too.
CREATE TABLE tidegate.ledger (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    ledger_id uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO tidegate.ledger DEFAULT VALUES;
