SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA old_customers;
CREATE SCHEMA old_transfers;
CREATE SCHEMA old_views;
CREATE SCHEMA old_views__replay;
COMMENT ON SCHEMA old_views__replay IS 'old_views~replay';
CREATE SCHEMA tidegate;
CREATE SCHEMA tidegate_staging;
CREATE TYPE tidegate.header AS (
	name text,
	value bytea
);
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE old_customers.customers (
    customer_id text,
    name text,
    email text,
    tier text,
    signed_up date,
    marketing boolean,
    _key text NOT NULL,
    _batch_id bigint NOT NULL,
    _partition integer NOT NULL,
    _offset bigint NOT NULL
);
CREATE TABLE old_transfers.balances (
    account text NOT NULL,
    balance numeric(28,2) NOT NULL,
    postings bigint NOT NULL
);
CREATE TABLE old_transfers.postings (
    transfer_id text NOT NULL,
    account text NOT NULL,
    amount numeric(18,2) NOT NULL,
    currency text NOT NULL,
    occurred_at timestamp with time zone NOT NULL,
    _batch_id bigint NOT NULL,
    _partition integer NOT NULL,
    _offset bigint NOT NULL
);
COMMENT ON TABLE old_transfers.postings IS 'Two rows a transfer, one below zero and one above.';
CREATE TABLE old_views.page_views (
    event_id text NOT NULL,
    visitor text NOT NULL,
    url text NOT NULL,
    referrer text,
    viewed_at timestamp with time zone NOT NULL,
    duration_ms bigint,
    _batch_id bigint NOT NULL,
    _partition integer NOT NULL,
    _offset bigint NOT NULL
);
CREATE TABLE old_views__replay.page_views (
    event_id text NOT NULL,
    visitor text NOT NULL,
    url text NOT NULL,
    referrer text,
    viewed_at timestamp with time zone NOT NULL,
    duration_ms bigint,
    _batch_id bigint NOT NULL,
    _partition integer NOT NULL,
    _offset bigint NOT NULL
);
CREATE TABLE tidegate.batch (
    batch_id bigint NOT NULL,
    pipeline text NOT NULL,
    epoch bigint NOT NULL,
    owner uuid NOT NULL,
    run_id text,
    messages bigint NOT NULL,
    rows bigint NOT NULL,
    dead_letters bigint NOT NULL,
    unknown_fields bigint NOT NULL,
    contract_version text NOT NULL,
    timings jsonb NOT NULL,
    committed_at timestamp with time zone DEFAULT now() NOT NULL,
    told_at timestamp with time zone,
    replaced_by bigint
);
CREATE SEQUENCE tidegate.batch_id
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE tidegate.batch_range (
    batch_id bigint NOT NULL,
    topic text NOT NULL,
    topic_id text NOT NULL,
    partition integer NOT NULL,
    from_offset bigint NOT NULL,
    until_offset bigint NOT NULL,
    messages bigint NOT NULL,
    gaps int8multirange NOT NULL,
    leader_epoch integer,
    CONSTRAINT batch_range_check CHECK ((until_offset > from_offset))
);
CREATE TABLE tidegate.check_result (
    batch_id bigint NOT NULL,
    check_name text NOT NULL,
    table_name text NOT NULL,
    severity text NOT NULL,
    passed boolean NOT NULL,
    observed jsonb NOT NULL,
    CONSTRAINT check_result_severity_check CHECK ((severity = ANY (ARRAY['blocking'::text, 'warning'::text])))
);
CREATE TABLE tidegate.dead_letter (
    pipeline text NOT NULL,
    batch_id bigint NOT NULL,
    topic text NOT NULL,
    topic_id text NOT NULL,
    partition integer NOT NULL,
    "offset" bigint NOT NULL,
    timestamp_ms bigint,
    key bytea,
    value bytea,
    headers tidegate.header[],
    stage text NOT NULL,
    error_class text NOT NULL,
    error_message text NOT NULL,
    field text,
    status text DEFAULT 'open'::text NOT NULL,
    status_by text,
    status_at timestamp with time zone,
    CONSTRAINT dead_letter_stage_check CHECK ((stage = ANY (ARRAY['decode'::text, 'check'::text, 'transform'::text, 'publish'::text]))),
    CONSTRAINT dead_letter_status_check CHECK ((status = ANY (ARRAY['open'::text, 'redriven'::text, 'discarded'::text])))
);
CREATE TABLE tidegate.declared_skip (
    pipeline text NOT NULL,
    topic_id text NOT NULL,
    partition integer NOT NULL,
    from_offset bigint NOT NULL,
    until_offset bigint NOT NULL,
    reason text NOT NULL,
    declared_by text NOT NULL,
    declared_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT declared_skip_check CHECK ((until_offset > from_offset))
);
CREATE TABLE tidegate.lineage_event (
    sequence bigint NOT NULL,
    batch_id bigint NOT NULL,
    event jsonb NOT NULL,
    emitted_at timestamp with time zone
);
ALTER TABLE tidegate.lineage_event ALTER COLUMN sequence ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tidegate.lineage_event_sequence_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE tidegate.lost_history (
    settlement_id bigint NOT NULL,
    pipeline text NOT NULL,
    partition integer NOT NULL,
    from_offset bigint NOT NULL,
    until_offset bigint NOT NULL,
    until_batch bigint NOT NULL,
    CONSTRAINT lost_history_check CHECK ((until_offset > from_offset))
);
CREATE TABLE tidegate.migration (
    name text NOT NULL,
    at timestamp with time zone DEFAULT now()
);
CREATE TABLE tidegate.output (
    table_oid oid NOT NULL,
    table_name text NOT NULL,
    pipeline text NOT NULL,
    disposition text NOT NULL,
    CONSTRAINT output_disposition_check CHECK ((disposition = ANY (ARRAY['append'::text, 'upsert'::text, 'accumulate'::text])))
);
CREATE TABLE tidegate.pipeline (
    name text NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    owner uuid,
    run_id text,
    state text DEFAULT 'active'::text NOT NULL,
    halt_code text,
    halt_detail jsonb,
    pending jsonb,
    failed_tries integer DEFAULT 0 NOT NULL,
    retry_at timestamp with time zone,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT pipeline_check CHECK (((state = 'halted'::text) = (halt_code IS NOT NULL))),
    CONSTRAINT pipeline_state_check CHECK ((state = ANY (ARRAY['active'::text, 'halted'::text])))
);
CREATE TABLE tidegate.replay (
    replay_id bigint NOT NULL,
    pipeline text NOT NULL,
    from_batch bigint NOT NULL,
    fingerprint text NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    executed_at timestamp with time zone,
    executed_by text,
    reason text,
    differences jsonb
);
ALTER TABLE tidegate.replay ALTER COLUMN replay_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tidegate.replay_replay_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE tidegate.settlement (
    settlement_id bigint NOT NULL,
    pipeline text NOT NULL,
    halt_code text NOT NULL,
    halt_detail jsonb NOT NULL,
    actions jsonb NOT NULL,
    epoch bigint NOT NULL,
    reason text NOT NULL,
    settled_by text NOT NULL,
    settled_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE tidegate.settlement ALTER COLUMN settlement_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tidegate.settlement_settlement_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE tidegate.source_position (
    pipeline text NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    cluster_id text NOT NULL,
    topic_id text NOT NULL,
    start_offset bigint NOT NULL,
    next_offset bigint NOT NULL,
    leader_epoch integer,
    seen_end bigint,
    batch_id bigint,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    added_late boolean DEFAULT false NOT NULL,
    CONSTRAINT source_position_check CHECK ((next_offset >= start_offset))
);
CREATE TABLE tidegate.staging (
    staging_id bigint NOT NULL,
    pipeline text NOT NULL,
    batch_id bigint NOT NULL,
    epoch bigint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE SEQUENCE tidegate.staging_id
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE UNLOGGED TABLE tidegate_staging.rows_5 (
    transfer_id text,
    account text,
    amount numeric(18,2),
    currency text,
    occurred_at timestamp with time zone,
    _partition integer,
    _offset bigint,
    _attempt uuid
)
WITH (autovacuum_enabled=off);
CREATE VIEW tidegate_staging.audit_5 AS
 SELECT transfer_id,
    account,
    amount,
    currency,
    occurred_at,
    _partition,
    _offset,
    _attempt
   FROM tidegate_staging.rows_5
  WHERE (_attempt = ANY ('{1e068b70-8ffd-4924-bd58-8157964eba45,face7e59-cfc4-4ac7-b406-71aa929eb801,86aa887c-fe87-4391-a1fc-7e12b0abc9dc,e1981ed1-09fd-417a-8327-b9a6f0e0ad2f}'::uuid[]));
CREATE UNLOGGED TABLE tidegate_staging.coverage (
    staging_id bigint NOT NULL,
    attempt uuid NOT NULL,
    partition integer NOT NULL,
    from_offset bigint NOT NULL,
    until_offset bigint NOT NULL,
    messages bigint NOT NULL,
    rows bigint NOT NULL,
    dead_letters bigint NOT NULL,
    unknown_fields bigint NOT NULL,
    gaps int8multirange NOT NULL,
    leader_epoch integer
);
CREATE UNLOGGED TABLE tidegate_staging.dead_letter (
    staging_id bigint NOT NULL,
    attempt uuid NOT NULL,
    partition integer NOT NULL,
    "offset" bigint NOT NULL,
    timestamp_ms bigint,
    key bytea,
    value bytea,
    header_names text[],
    header_values bytea[],
    stage text NOT NULL,
    error_class text NOT NULL,
    error_message text NOT NULL,
    field text
);
CREATE UNLOGGED TABLE tidegate_staging.rows_8 (
    customer_id text,
    name text,
    email text,
    tier text,
    signed_up date,
    marketing boolean,
    _key text,
    _deleted boolean,
    _partition integer,
    _offset bigint,
    _attempt uuid
)
WITH (autovacuum_enabled=off);
INSERT INTO old_customers.customers VALUES
	('C0', 'Ada', NULL, 'gold', '2026-11-01', NULL, 'C0', 5, 0, 0),
	('C10', 'Ada', NULL, 'gold', '2026-11-01', NULL, 'C10', 5, 2, 2),
	('C11', 'Ada', NULL, 'gold', '2026-11-01', NULL, 'C11', 5, 3, 2),
	('C2', 'Ada', NULL, 'gold', '2026-11-01', NULL, 'C2', 5, 2, 0),
	('C3', 'Ada', NULL, 'gold', '2026-11-01', NULL, 'C3', 5, 3, 0),
	('C4', 'Ada', NULL, 'gold', '2026-11-01', NULL, 'C4', 5, 0, 1),
	('C6', 'Ada', NULL, 'gold', '2026-11-01', NULL, 'C6', 5, 2, 1),
	('C7', 'Ada', NULL, 'gold', '2026-11-01', NULL, 'C7', 5, 3, 1),
	('C8', 'Ada', NULL, 'gold', '2026-11-01', NULL, 'C8', 5, 0, 2),
	('C9', 'Ada', NULL, 'gold', '2026-11-01', NULL, 'C9', 5, 1, 2),
	('C1', 'again', NULL, 'gold', '2026-11-01', NULL, 'C1', 6, 1, 3);
INSERT INTO old_transfers.balances VALUES
	('A00000', -1.00, 1),
	('A00001', -1.01, 2),
	('A00003', -4.03, 1),
	('A00004', 25.25, 2),
	('A00005', -6.05, 1),
	('A00006', 9.09, 2),
	('A00007', -8.07, 1),
	('A00008', -7.07, 2),
	('A00010', -11.10, 1),
	('A00012', -13.12, 1),
	('A00013', 3.03, 2),
	('A00014', -15.14, 1),
	('A00015', -13.13, 2),
	('A00017', -18.17, 1),
	('A00019', -20.19, 1),
	('A00020', -3.03, 2),
	('A00021', -22.21, 1),
	('A00022', -19.19, 2),
	('A00023', -24.23, 1),
	('A00024', -25.24, 1),
	('A00026', -27.26, 1),
	('A00027', -9.09, 2),
	('A00028', -29.28, 1),
	('A00029', -25.25, 2),
	('A00034', 20.19, 1),
	('A00048', 22.21, 1),
	('A00050', 8.07, 1),
	('A00055', 23.22, 1),
	('A00057', 9.08, 1),
	('A00062', 24.23, 1),
	('A00064', 10.09, 1),
	('A00069', 25.24, 1),
	('A00071', 11.10, 1),
	('A00076', 26.25, 1),
	('A00078', 12.11, 1),
	('A00083', 27.26, 1),
	('A00085', 13.12, 1),
	('A00090', 28.27, 1),
	('A00092', 14.13, 1),
	('A00097', 29.28, 1),
	('A00099', 15.14, 1),
	('A00011', 19.19, 2),
	('A00018', 13.13, 2),
	('A00025', 7.07, 2),
	('A00030', -31.30, 1),
	('A00031', -32.31, 1),
	('A00032', 1.01, 2),
	('A00033', -34.33, 1),
	('A00002', 41.41, 2),
	('A00009', 35.35, 2);
INSERT INTO old_transfers.balances VALUES
	('A00016', 29.29, 2),
	('A00035', -36.35, 1),
	('A00036', -31.31, 2),
	('A00037', -38.37, 1),
	('A00039', -40.39, 1),
	('A00040', -41.40, 1),
	('A00041', -21.21, 2),
	('A00042', -43.42, 1),
	('A00043', -37.37, 2),
	('A00044', -45.44, 1),
	('A00045', -46.45, 1),
	('A00046', 36.35, 1),
	('A00053', 37.36, 1),
	('A00060', 38.37, 1),
	('A00074', 40.39, 1),
	('A00081', 41.40, 1),
	('A00088', 42.41, 1),
	('A00095', 43.42, 1);
INSERT INTO old_transfers.postings VALUES
	('T2', 'A00001', -2.01, 'EUR', '2026-11-01 10:00:00+00', 1, 1, 0),
	('T2', 'A00008', 2.01, 'EUR', '2026-11-01 10:00:00+00', 1, 1, 0),
	('T6', 'A00005', -6.05, 'EUR', '2026-11-01 10:00:00+00', 1, 1, 1),
	('T6', 'A00036', 6.05, 'EUR', '2026-11-01 10:00:00+00', 1, 1, 1),
	('T10', 'A00009', -10.09, 'EUR', '2026-11-01 10:00:00+00', 1, 1, 2),
	('T10', 'A00064', 10.09, 'EUR', '2026-11-01 10:00:00+00', 1, 1, 2),
	('T14', 'A00013', -14.13, 'EUR', '2026-11-01 10:00:00+00', 1, 1, 3),
	('T14', 'A00092', 14.13, 'EUR', '2026-11-01 10:00:00+00', 1, 1, 3),
	('T18', 'A00017', -18.17, 'EUR', '2026-11-01 10:00:00+00', 1, 1, 4),
	('T18', 'A00020', 18.17, 'EUR', '2026-11-01 10:00:00+00', 1, 1, 4),
	('T22', 'A00021', -22.21, 'EUR', '2026-11-01 10:00:00+00', 1, 1, 5),
	('T22', 'A00048', 22.21, 'EUR', '2026-11-01 10:00:00+00', 1, 1, 5),
	('T26', 'A00025', -26.25, 'EUR', '2026-11-01 10:00:00+00', 1, 1, 6),
	('T26', 'A00076', 26.25, 'EUR', '2026-11-01 10:00:00+00', 1, 1, 6),
	('T30', 'A00029', -30.29, 'EUR', '2026-11-01 10:00:00+00', 1, 1, 7),
	('T30', 'A00004', 30.29, 'EUR', '2026-11-01 10:00:00+00', 1, 1, 7),
	('T1', 'A00000', -1.00, 'EUR', '2026-11-01 10:00:00+00', 1, 0, 0),
	('T1', 'A00001', 1.00, 'EUR', '2026-11-01 10:00:00+00', 1, 0, 0),
	('T5', 'A00004', -5.04, 'EUR', '2026-11-01 10:00:00+00', 1, 0, 1),
	('T5', 'A00029', 5.04, 'EUR', '2026-11-01 10:00:00+00', 1, 0, 1),
	('T9', 'A00008', -9.08, 'EUR', '2026-11-01 10:00:00+00', 1, 0, 2),
	('T9', 'A00057', 9.08, 'EUR', '2026-11-01 10:00:00+00', 1, 0, 2),
	('T13', 'A00012', -13.12, 'EUR', '2026-11-01 10:00:00+00', 1, 0, 3),
	('T13', 'A00085', 13.12, 'EUR', '2026-11-01 10:00:00+00', 1, 0, 3),
	('T17', 'A00016', -17.16, 'EUR', '2026-11-01 10:00:00+00', 1, 0, 4),
	('T17', 'A00013', 17.16, 'EUR', '2026-11-01 10:00:00+00', 1, 0, 4),
	('T21', 'A00020', -21.20, 'EUR', '2026-11-01 10:00:00+00', 1, 0, 5),
	('T21', 'A00041', 21.20, 'EUR', '2026-11-01 10:00:00+00', 1, 0, 5),
	('T25', 'A00024', -25.24, 'EUR', '2026-11-01 10:00:00+00', 1, 0, 6),
	('T25', 'A00069', 25.24, 'EUR', '2026-11-01 10:00:00+00', 1, 0, 6),
	('T29', 'A00028', -29.28, 'EUR', '2026-11-01 10:00:00+00', 1, 0, 7),
	('T29', 'A00097', 29.28, 'EUR', '2026-11-01 10:00:00+00', 1, 0, 7),
	('T4', 'A00003', -4.03, 'EUR', '2026-11-01 10:00:00+00', 1, 3, 0),
	('T4', 'A00022', 4.03, 'EUR', '2026-11-01 10:00:00+00', 1, 3, 0),
	('T8', 'A00007', -8.07, 'EUR', '2026-11-01 10:00:00+00', 1, 3, 1),
	('T8', 'A00050', 8.07, 'EUR', '2026-11-01 10:00:00+00', 1, 3, 1),
	('T12', 'A00011', -12.11, 'EUR', '2026-11-01 10:00:00+00', 1, 3, 2),
	('T12', 'A00078', 12.11, 'EUR', '2026-11-01 10:00:00+00', 1, 3, 2),
	('T16', 'A00015', -16.15, 'EUR', '2026-11-01 10:00:00+00', 1, 3, 3),
	('T16', 'A00006', 16.15, 'EUR', '2026-11-01 10:00:00+00', 1, 3, 3),
	('T20', 'A00019', -20.19, 'EUR', '2026-11-01 10:00:00+00', 1, 3, 4),
	('T20', 'A00034', 20.19, 'EUR', '2026-11-01 10:00:00+00', 1, 3, 4),
	('T24', 'A00023', -24.23, 'EUR', '2026-11-01 10:00:00+00', 1, 3, 5),
	('T24', 'A00062', 24.23, 'EUR', '2026-11-01 10:00:00+00', 1, 3, 5),
	('T28', 'A00027', -28.27, 'EUR', '2026-11-01 10:00:00+00', 1, 3, 6),
	('T28', 'A00090', 28.27, 'EUR', '2026-11-01 10:00:00+00', 1, 3, 6),
	('T3', 'A00002', -3.02, 'EUR', '2026-11-01 10:00:00+00', 1, 2, 0),
	('T3', 'A00015', 3.02, 'EUR', '2026-11-01 10:00:00+00', 1, 2, 0),
	('T7', 'A00006', -7.06, 'EUR', '2026-11-01 10:00:00+00', 1, 2, 1),
	('T7', 'A00043', 7.06, 'EUR', '2026-11-01 10:00:00+00', 1, 2, 1);
INSERT INTO old_transfers.postings VALUES
	('T11', 'A00010', -11.10, 'EUR', '2026-11-01 10:00:00+00', 1, 2, 2),
	('T11', 'A00071', 11.10, 'EUR', '2026-11-01 10:00:00+00', 1, 2, 2),
	('T15', 'A00014', -15.14, 'EUR', '2026-11-01 10:00:00+00', 1, 2, 3),
	('T15', 'A00099', 15.14, 'EUR', '2026-11-01 10:00:00+00', 1, 2, 3),
	('T19', 'A00018', -19.18, 'EUR', '2026-11-01 10:00:00+00', 1, 2, 4),
	('T19', 'A00027', 19.18, 'EUR', '2026-11-01 10:00:00+00', 1, 2, 4),
	('T23', 'A00022', -23.22, 'EUR', '2026-11-01 10:00:00+00', 1, 2, 5),
	('T23', 'A00055', 23.22, 'EUR', '2026-11-01 10:00:00+00', 1, 2, 5),
	('T27', 'A00026', -27.26, 'EUR', '2026-11-01 10:00:00+00', 1, 2, 6),
	('T27', 'A00083', 27.26, 'EUR', '2026-11-01 10:00:00+00', 1, 2, 6),
	('T32', 'A00031', -32.31, 'EUR', '2026-11-01 10:00:00+00', 2, 1, 10),
	('T32', 'A00018', 32.31, 'EUR', '2026-11-01 10:00:00+00', 2, 1, 10),
	('T31', 'A00030', -31.30, 'EUR', '2026-11-01 10:00:00+00', 2, 0, 10),
	('T31', 'A00011', 31.30, 'EUR', '2026-11-01 10:00:00+00', 2, 0, 10),
	('T33', 'A00032', -33.32, 'EUR', '2026-11-01 10:00:00+00', 2, 2, 10),
	('T33', 'A00025', 33.32, 'EUR', '2026-11-01 10:00:00+00', 2, 2, 10),
	('T34', 'A00033', -34.33, 'EUR', '2026-11-01 10:00:00+00', 2, 3, 10),
	('T34', 'A00032', 34.33, 'EUR', '2026-11-01 10:00:00+00', 2, 3, 10),
	('T43', 'A00042', -43.42, 'EUR', '2026-11-01 10:00:00+00', 3, 0, 13),
	('T43', 'A00095', 43.42, 'EUR', '2026-11-01 10:00:00+00', 3, 0, 13),
	('T36', 'A00035', -36.35, 'EUR', '2026-11-01 10:00:00+00', 3, 1, 11),
	('T36', 'A00046', 36.35, 'EUR', '2026-11-01 10:00:00+00', 3, 1, 11),
	('T40', 'A00039', -40.39, 'EUR', '2026-11-01 10:00:00+00', 3, 1, 12),
	('T40', 'A00074', 40.39, 'EUR', '2026-11-01 10:00:00+00', 3, 1, 12),
	('T44', 'A00043', -44.43, 'EUR', '2026-11-01 10:00:00+00', 3, 1, 13),
	('T44', 'A00002', 44.43, 'EUR', '2026-11-01 10:00:00+00', 3, 1, 13),
	('T38', 'A00037', -38.37, 'EUR', '2026-11-01 10:00:00+00', 3, 3, 11),
	('T38', 'A00060', 38.37, 'EUR', '2026-11-01 10:00:00+00', 3, 3, 11),
	('T42', 'A00041', -42.41, 'EUR', '2026-11-01 10:00:00+00', 3, 3, 12),
	('T42', 'A00088', 42.41, 'EUR', '2026-11-01 10:00:00+00', 3, 3, 12),
	('T46', 'A00045', -46.45, 'EUR', '2026-11-01 10:00:00+00', 3, 3, 13),
	('T46', 'A00016', 46.45, 'EUR', '2026-11-01 10:00:00+00', 3, 3, 13),
	('T37', 'A00036', -37.36, 'EUR', '2026-11-01 10:00:00+00', 3, 2, 11),
	('T37', 'A00053', 37.36, 'EUR', '2026-11-01 10:00:00+00', 3, 2, 11),
	('T41', 'A00040', -41.40, 'EUR', '2026-11-01 10:00:00+00', 3, 2, 12),
	('T41', 'A00081', 41.40, 'EUR', '2026-11-01 10:00:00+00', 3, 2, 12),
	('T45', 'A00044', -45.44, 'EUR', '2026-11-01 10:00:00+00', 3, 2, 13),
	('T45', 'A00009', 45.44, 'EUR', '2026-11-01 10:00:00+00', 3, 2, 13);
INSERT INTO old_views.page_views VALUES
	('e0', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 0, 11, 0, 0),
	('e4', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 4, 11, 0, 1),
	('e8', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 8, 11, 0, 2),
	('e12', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 12, 11, 0, 3),
	('e16', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 16, 11, 0, 5),
	('e20', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 20, 11, 0, 6),
	('e1', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 1, 11, 1, 0),
	('e5', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 5, 11, 1, 1),
	('e9', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 9, 11, 1, 2),
	('e13', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 13, 11, 1, 3),
	('e17', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 17, 11, 1, 4),
	('e21', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 21, 11, 1, 5),
	('e2', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 2, 11, 2, 0),
	('e6', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 6, 11, 2, 1),
	('e10', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 10, 11, 2, 2),
	('e14', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 14, 11, 2, 3),
	('e18', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 18, 11, 2, 4),
	('e22', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 22, 11, 2, 5),
	('e3', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 3, 11, 3, 0),
	('e7', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 7, 11, 3, 1),
	('e11', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 11, 11, 3, 2),
	('e15', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 15, 11, 3, 3),
	('e19', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 19, 11, 3, 4),
	('e23', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 23, 11, 3, 5),
	('e101', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 101, 12, 1, 6),
	('e100', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 100, 12, 0, 7),
	('e103', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 103, 12, 3, 6),
	('e102', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 102, 12, 2, 6);
INSERT INTO old_views__replay.page_views VALUES
	('e101', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 101, 13, 1, 6),
	('e100', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 100, 13, 0, 7),
	('e103', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 103, 13, 3, 6),
	('e102', 'ada', 'https://example.org/', NULL, '2026-11-01 10:00:00+00', 102, 13, 2, 6);
INSERT INTO tidegate.batch VALUES
	(1, 'old_transfers', 1, '6b8039a4-6d41-4f9a-96db-9a336c33859d', NULL, 32, 60, 2, 0, '1.0.0', '{"plan": 0.058, "audit": 30.036, "stage": 31.984}', '2026-11-22 04:43:01.810118+00', NULL, NULL),
	(2, 'old_transfers', 4, 'b974dd62-ab3a-45b5-867e-8ad88d1bf656', NULL, 12, 8, 8, 0, '1.0.0', '{"plan": 0.033, "audit": 0.182, "stage": 1.415}', '2026-11-22 04:43:05.815849+00', NULL, NULL),
	(3, 'old_transfers', 7, '799dce85-c242-41b0-b810-233d3f02f7b0', NULL, 10, 20, 0, 0, '1.0.0', '{"plan": 0.037, "audit": 0.108, "stage": 1.016}', '2026-11-22 04:43:07.365333+00', NULL, NULL),
	(5, 'old_customers', 1, 'c49d4407-3799-4328-b013-68ab6c820f67', NULL, 12, 12, 0, 0, '1.0.0', '{"plan": 0.051, "audit": 0.076, "stage": 1.734}', '2026-11-22 04:43:11.197616+00', NULL, NULL),
	(6, 'old_customers', 2, '64f590da-6cf9-4725-b275-0b46535df11e', NULL, 2, 2, 0, 0, '1.0.0', '{"plan": 0.047, "audit": 0.062, "stage": 0.538}', '2026-11-22 04:43:12.011442+00', NULL, NULL),
	(8, 'old_views', 1, 'aa2d75c1-a54a-42cd-ae45-51fc7d424e11', NULL, 8, 8, 0, 0, '1.0.0', '{"plan": 0.056, "audit": 0.068, "stage": 2.019}', '2026-11-22 04:43:15.001502+00', NULL, 1),
	(9, 'old_views', 2, 'e179019a-2613-42d7-bbc2-2c7ebabb40fd', NULL, 9, 8, 1, 0, '1.0.0', '{"plan": 0.019, "audit": 0.099, "stage": 0.533}', '2026-11-22 04:43:15.79582+00', NULL, 1),
	(10, 'old_views', 3, '90bfa833-68bc-4ba1-b9a9-b979479f6d94', NULL, 8, 8, 0, 0, '1.0.0', '{"plan": 0.306, "audit": 0.106, "stage": 1.342}', '2026-11-22 04:43:17.884625+00', NULL, 1),
	(11, 'old_views', 1, '397001a5-f41b-424f-a902-7e3560c4f871', NULL, 25, 24, 1, 0, '1.0.0', '{"plan": 0.025, "audit": 0.117, "stage": 0.651}', '2026-11-22 04:43:19.399049+00', NULL, NULL),
	(12, 'old_views', 5, 'cf354b39-f0f7-404c-9c1c-a65ac25d17fe', NULL, 4, 4, 0, 0, '1.0.0', '{"plan": 0.015, "audit": 0.078, "stage": 0.462}', '2026-11-22 04:43:20.472251+00', NULL, NULL),
	(13, 'old_views~replay', 1, '7227d4ef-eae9-42a8-b891-c1b8fc526de4', NULL, 4, 4, 0, 0, '1.0.0', '{"plan": 0.021, "audit": 0.079, "stage": 0.713}', '2026-11-22 04:43:21.753628+00', NULL, NULL);
INSERT INTO tidegate.batch_range VALUES
	(1, 'old_transfers', '<topic id of old_transfers>', 0, 0, 8, 8, '{}', 0),
	(1, 'old_transfers', '<topic id of old_transfers>', 1, 0, 8, 8, '{}', 0),
	(1, 'old_transfers', '<topic id of old_transfers>', 2, 0, 8, 8, '{}', 0),
	(1, 'old_transfers', '<topic id of old_transfers>', 3, 0, 8, 8, '{}', 0),
	(2, 'old_transfers', '<topic id of old_transfers>', 0, 8, 11, 3, '{}', 0),
	(2, 'old_transfers', '<topic id of old_transfers>', 1, 8, 11, 3, '{}', 0),
	(2, 'old_transfers', '<topic id of old_transfers>', 2, 8, 11, 3, '{}', 0),
	(2, 'old_transfers', '<topic id of old_transfers>', 3, 8, 11, 3, '{}', 0),
	(3, 'old_transfers', '<topic id of old_transfers>', 0, 13, 14, 1, '{}', 0),
	(3, 'old_transfers', '<topic id of old_transfers>', 1, 11, 14, 3, '{}', 0),
	(3, 'old_transfers', '<topic id of old_transfers>', 2, 11, 14, 3, '{}', 0),
	(3, 'old_transfers', '<topic id of old_transfers>', 3, 11, 14, 3, '{}', 0),
	(5, 'old_customers', '<topic id of old_customers>', 0, 0, 3, 3, '{}', 0),
	(5, 'old_customers', '<topic id of old_customers>', 1, 0, 3, 3, '{}', 0),
	(5, 'old_customers', '<topic id of old_customers>', 2, 0, 3, 3, '{}', 0),
	(5, 'old_customers', '<topic id of old_customers>', 3, 0, 3, 3, '{}', 0),
	(6, 'old_customers', '<topic id of old_customers>', 1, 3, 5, 2, '{}', 0),
	(8, 'old_views', '<topic id of old_views>', 0, 0, 2, 2, '{}', 0),
	(8, 'old_views', '<topic id of old_views>', 1, 0, 2, 2, '{}', 0),
	(8, 'old_views', '<topic id of old_views>', 2, 0, 2, 2, '{}', 0),
	(8, 'old_views', '<topic id of old_views>', 3, 0, 2, 2, '{}', 0),
	(9, 'old_views', '<topic id of old_views>', 0, 2, 5, 3, '{}', 0),
	(9, 'old_views', '<topic id of old_views>', 1, 2, 4, 2, '{}', 0),
	(9, 'old_views', '<topic id of old_views>', 2, 2, 4, 2, '{}', 0),
	(9, 'old_views', '<topic id of old_views>', 3, 2, 4, 2, '{}', 0),
	(10, 'old_views', '<topic id of old_views>', 0, 5, 7, 2, '{}', 0),
	(10, 'old_views', '<topic id of old_views>', 1, 4, 6, 2, '{}', 0),
	(10, 'old_views', '<topic id of old_views>', 2, 4, 6, 2, '{}', 0),
	(10, 'old_views', '<topic id of old_views>', 3, 4, 6, 2, '{}', 0),
	(11, 'old_views', '<topic id of old_views>', 0, 0, 7, 7, '{}', 0),
	(11, 'old_views', '<topic id of old_views>', 1, 0, 6, 6, '{}', 0),
	(11, 'old_views', '<topic id of old_views>', 2, 0, 6, 6, '{}', 0),
	(11, 'old_views', '<topic id of old_views>', 3, 0, 6, 6, '{}', 0),
	(12, 'old_views', '<topic id of old_views>', 0, 7, 8, 1, '{}', 0),
	(12, 'old_views', '<topic id of old_views>', 1, 6, 7, 1, '{}', 0),
	(12, 'old_views', '<topic id of old_views>', 2, 6, 7, 1, '{}', 0),
	(12, 'old_views', '<topic id of old_views>', 3, 6, 7, 1, '{}', 0),
	(13, 'old_views', '<topic id of old_views>', 0, 7, 8, 1, '{}', 0),
	(13, 'old_views', '<topic id of old_views>', 1, 6, 7, 1, '{}', 0),
	(13, 'old_views', '<topic id of old_views>', 2, 6, 7, 1, '{}', 0),
	(13, 'old_views', '<topic id of old_views>', 3, 6, 7, 1, '{}', 0);
INSERT INTO tidegate.check_result VALUES
	(1, 'message_decodes', 'old_transfers.postings', 'warning', false, '{"failed": 1, "samples": [{"field": null, "offset": 7, "message": "not JSON: expecting value at character 0: not json", "partition": 2}], "messages": 32}'),
	(1, 'transfer_id_required', 'old_transfers.postings', 'warning', false, '{"failed": 1, "samples": [{"field": "transfer_id", "offset": 7, "message": "transfer_id is missing; the contract wants a value", "partition": 3}], "messages": 32}'),
	(1, 'transfer_id_pattern', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 32}'),
	(1, 'debit_account_required', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 32}'),
	(1, 'debit_account_pattern', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 32}'),
	(1, 'credit_account_required', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 32}'),
	(1, 'credit_account_pattern', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 32}'),
	(1, 'amount_required', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 32}'),
	(1, 'amount_minimum', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 32}'),
	(1, 'amount_maximum', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 32}'),
	(1, 'currency_required', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 32}'),
	(1, 'currency_enum', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 32}'),
	(1, 'occurred_at_required', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 32}'),
	(1, 'memo_max_length', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 32}'),
	(1, 'row_is_accepted', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 32}'),
	(1, 'postings_sum_to_zero', 'old_transfers.postings', 'blocking', true, '{"rule": "What leaves one account arrives on another.", "observed_value": 0.0}'),
	(1, 'postings_of_usual_size', 'old_transfers.postings', 'warning', true, '{"rule": "Large ones are allowed, and worth a look. (The mean is always zero, so it is the largest that tells.)", "observed_value": 30.29}'),
	(1, 'postings_row_count', 'old_transfers.postings', 'warning', true, '{"rule": "At least the two of one transfer, at most the two of each in a full batch.", "observed_value": 60}'),
	(2, 'message_decodes', 'old_transfers.postings', 'warning', false, '{"failed": 8, "samples": [{"field": null, "offset": 8, "message": "not JSON: expecting value at character 0: poison", "partition": 0}, {"field": null, "offset": 9, "message": "not JSON: expecting value at character 0: poison", "partition": 0}, {"field": null, "offset": 8, "message": "not JSON: expecting value at character 0: poison", "partition": 1}, {"field": null, "offset": 9, "message": "not JSON: expecting value at character 0: poison", "partition": 1}, {"field": null, "offset": 8, "message": "not JSON: expecting value at character 0: poison", "partition": 2}, {"field": null, "offset": 9, "message": "not JSON: expecting value at character 0: poison", "partition": 2}, {"field": null, "offset": 8, "message": "not JSON: expecting value at character 0: poison", "partition": 3}, {"field": null, "offset": 9, "message": "not JSON: expecting value at character 0: poison", "partition": 3}], "messages": 12}'),
	(2, 'transfer_id_required', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(2, 'transfer_id_pattern', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(2, 'debit_account_required', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(2, 'debit_account_pattern', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(2, 'credit_account_required', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(2, 'credit_account_pattern', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(2, 'amount_required', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(2, 'amount_minimum', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(2, 'amount_maximum', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(2, 'currency_required', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(2, 'currency_enum', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(2, 'occurred_at_required', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(2, 'memo_max_length', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(2, 'row_is_accepted', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(2, 'postings_sum_to_zero', 'old_transfers.postings', 'blocking', true, '{"rule": "What leaves one account arrives on another.", "observed_value": 0.0}'),
	(2, 'postings_of_usual_size', 'old_transfers.postings', 'warning', true, '{"rule": "Large ones are allowed, and worth a look. (The mean is always zero, so it is the largest that tells.)", "observed_value": 34.33}'),
	(2, 'postings_row_count', 'old_transfers.postings', 'warning', true, '{"rule": "At least the two of one transfer, at most the two of each in a full batch.", "observed_value": 8}'),
	(3, 'message_decodes', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 10}'),
	(3, 'transfer_id_required', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 10}'),
	(3, 'transfer_id_pattern', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 10}'),
	(3, 'debit_account_required', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 10}'),
	(3, 'debit_account_pattern', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 10}'),
	(3, 'credit_account_required', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 10}'),
	(3, 'credit_account_pattern', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 10}'),
	(3, 'amount_required', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 10}'),
	(3, 'amount_minimum', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 10}'),
	(3, 'amount_maximum', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 10}'),
	(3, 'currency_required', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 10}'),
	(3, 'currency_enum', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 10}'),
	(3, 'occurred_at_required', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 10}'),
	(3, 'memo_max_length', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 10}');
INSERT INTO tidegate.check_result VALUES
	(3, 'row_is_accepted', 'old_transfers.postings', 'warning', true, '{"failed": 0, "samples": [], "messages": 10}'),
	(3, 'postings_sum_to_zero', 'old_transfers.postings', 'blocking', true, '{"rule": "What leaves one account arrives on another.", "observed_value": 0.0}'),
	(3, 'postings_of_usual_size', 'old_transfers.postings', 'warning', true, '{"rule": "Large ones are allowed, and worth a look. (The mean is always zero, so it is the largest that tells.)", "observed_value": 46.45}'),
	(3, 'postings_row_count', 'old_transfers.postings', 'warning', true, '{"rule": "At least the two of one transfer, at most the two of each in a full batch.", "observed_value": 20}'),
	(5, 'message_decodes', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(5, 'customer_id_required', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(5, 'customer_id_pattern', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(5, 'name_required', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(5, 'name_min_length', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(5, 'name_max_length', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(5, 'email_pattern', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(5, 'email_max_length', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(5, 'tier_required', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(5, 'tier_enum', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(5, 'signed_up_required', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(5, 'signed_up_minimum', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(5, 'row_is_accepted', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 12}'),
	(5, 'customers_row_count', 'old_customers.customers', 'warning', true, '{"rule": "A batch this large is an import, and worth a look.", "observed_value": 12}'),
	(6, 'message_decodes', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 2}'),
	(6, 'customer_id_required', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 2}'),
	(6, 'customer_id_pattern', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 2}'),
	(6, 'name_required', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 2}'),
	(6, 'name_min_length', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 2}'),
	(6, 'name_max_length', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 2}'),
	(6, 'email_pattern', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 2}'),
	(6, 'email_max_length', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 2}'),
	(6, 'tier_required', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 2}'),
	(6, 'tier_enum', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 2}'),
	(6, 'signed_up_required', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 2}'),
	(6, 'signed_up_minimum', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 2}'),
	(6, 'row_is_accepted', 'old_customers.customers', 'warning', true, '{"failed": 0, "samples": [], "messages": 2}'),
	(6, 'customers_row_count', 'old_customers.customers', 'warning', true, '{"rule": "A batch this large is an import, and worth a look.", "observed_value": 1}'),
	(8, 'message_decodes', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(8, 'event_id_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(8, 'event_id_min_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(8, 'event_id_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(8, 'visitor_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(8, 'visitor_min_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(8, 'visitor_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(8, 'url_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(8, 'url_pattern', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(8, 'url_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(8, 'referrer_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(8, 'viewed_at_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(8, 'duration_ms_minimum', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(8, 'duration_ms_maximum', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(8, 'row_is_accepted', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(8, 'event_id_unique', 'old_views.page_views', 'warning', true, '{"rule": "An event arrives once in a batch."}'),
	(9, 'message_decodes', 'old_views.page_views', 'warning', false, '{"failed": 1, "samples": [{"field": null, "offset": 4, "message": "not JSON: expecting value at character 0: not json", "partition": 0}], "messages": 9}'),
	(9, 'event_id_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 9}');
INSERT INTO tidegate.check_result VALUES
	(9, 'event_id_min_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 9}'),
	(9, 'event_id_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 9}'),
	(9, 'visitor_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 9}'),
	(9, 'visitor_min_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 9}'),
	(9, 'visitor_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 9}'),
	(9, 'url_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 9}'),
	(9, 'url_pattern', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 9}'),
	(9, 'url_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 9}'),
	(9, 'referrer_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 9}'),
	(9, 'viewed_at_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 9}'),
	(9, 'duration_ms_minimum', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 9}'),
	(9, 'duration_ms_maximum', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 9}'),
	(9, 'row_is_accepted', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 9}'),
	(9, 'event_id_unique', 'old_views.page_views', 'warning', true, '{"rule": "An event arrives once in a batch."}'),
	(10, 'message_decodes', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(10, 'event_id_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(10, 'event_id_min_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(10, 'event_id_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(10, 'visitor_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(10, 'visitor_min_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(10, 'visitor_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(10, 'url_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(10, 'url_pattern', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(10, 'url_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(10, 'referrer_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(10, 'viewed_at_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(10, 'duration_ms_minimum', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(10, 'duration_ms_maximum', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(10, 'row_is_accepted', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 8}'),
	(10, 'event_id_unique', 'old_views.page_views', 'warning', true, '{"rule": "An event arrives once in a batch."}'),
	(11, 'message_decodes', 'old_views.page_views', 'warning', false, '{"failed": 1, "samples": [{"field": null, "offset": 4, "message": "not JSON: expecting value at character 0: not json", "partition": 0}], "messages": 25}'),
	(11, 'event_id_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 25}'),
	(11, 'event_id_min_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 25}'),
	(11, 'event_id_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 25}'),
	(11, 'visitor_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 25}'),
	(11, 'visitor_min_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 25}'),
	(11, 'visitor_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 25}'),
	(11, 'url_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 25}'),
	(11, 'url_pattern', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 25}'),
	(11, 'url_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 25}'),
	(11, 'referrer_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 25}'),
	(11, 'viewed_at_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 25}'),
	(11, 'duration_ms_minimum', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 25}'),
	(11, 'duration_ms_maximum', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 25}'),
	(11, 'row_is_accepted', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 25}'),
	(11, 'event_id_unique', 'old_views.page_views', 'warning', true, '{"rule": "An event arrives once in a batch."}'),
	(12, 'message_decodes', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(12, 'event_id_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(12, 'event_id_min_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(12, 'event_id_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}');
INSERT INTO tidegate.check_result VALUES
	(12, 'visitor_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(12, 'visitor_min_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(12, 'visitor_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(12, 'url_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(12, 'url_pattern', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(12, 'url_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(12, 'referrer_max_length', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(12, 'viewed_at_required', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(12, 'duration_ms_minimum', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(12, 'duration_ms_maximum', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(12, 'row_is_accepted', 'old_views.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(12, 'event_id_unique', 'old_views.page_views', 'warning', true, '{"rule": "An event arrives once in a batch."}'),
	(13, 'message_decodes', 'old_views__replay.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(13, 'event_id_required', 'old_views__replay.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(13, 'event_id_min_length', 'old_views__replay.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(13, 'event_id_max_length', 'old_views__replay.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(13, 'visitor_required', 'old_views__replay.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(13, 'visitor_min_length', 'old_views__replay.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(13, 'visitor_max_length', 'old_views__replay.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(13, 'url_required', 'old_views__replay.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(13, 'url_pattern', 'old_views__replay.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(13, 'url_max_length', 'old_views__replay.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(13, 'referrer_max_length', 'old_views__replay.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(13, 'viewed_at_required', 'old_views__replay.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(13, 'duration_ms_minimum', 'old_views__replay.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(13, 'duration_ms_maximum', 'old_views__replay.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(13, 'row_is_accepted', 'old_views__replay.page_views', 'warning', true, '{"failed": 0, "samples": [], "messages": 4}'),
	(13, 'event_id_unique', 'old_views__replay.page_views', 'warning', true, '{"rule": "An event arrives once in a batch."}');
INSERT INTO tidegate.dead_letter VALUES
	('old_transfers', 1, 'old_transfers', '<topic id of old_transfers>', 3, 7, 1795322519425, NULL, '\x7b7d', NULL, 'check', 'transfer_id_required', 'transfer_id is missing; the contract wants a value', 'transfer_id', 'open', NULL, NULL),
	('old_transfers', 1, 'old_transfers', '<topic id of old_transfers>', 2, 7, 1795322519425, NULL, '\x6e6f74206a736f6e', NULL, 'decode', 'InvalidJson', 'not JSON: expecting value at character 0: not json', NULL, 'open', NULL, NULL),
	('old_transfers', 2, 'old_transfers', '<topic id of old_transfers>', 1, 8, 1795322582067, NULL, '\x706f69736f6e', NULL, 'decode', 'InvalidJson', 'not JSON: expecting value at character 0: poison', NULL, 'open', NULL, NULL),
	('old_transfers', 2, 'old_transfers', '<topic id of old_transfers>', 1, 9, 1795322582067, NULL, '\x706f69736f6e', NULL, 'decode', 'InvalidJson', 'not JSON: expecting value at character 0: poison', NULL, 'open', NULL, NULL),
	('old_transfers', 2, 'old_transfers', '<topic id of old_transfers>', 2, 8, 1795322582067, NULL, '\x706f69736f6e', NULL, 'decode', 'InvalidJson', 'not JSON: expecting value at character 0: poison', NULL, 'open', NULL, NULL),
	('old_transfers', 2, 'old_transfers', '<topic id of old_transfers>', 2, 9, 1795322582067, NULL, '\x706f69736f6e', NULL, 'decode', 'InvalidJson', 'not JSON: expecting value at character 0: poison', NULL, 'open', NULL, NULL),
	('old_transfers', 2, 'old_transfers', '<topic id of old_transfers>', 0, 8, 1795322582067, NULL, '\x706f69736f6e', NULL, 'decode', 'InvalidJson', 'not JSON: expecting value at character 0: poison', NULL, 'open', NULL, NULL),
	('old_transfers', 2, 'old_transfers', '<topic id of old_transfers>', 0, 9, 1795322582067, NULL, '\x706f69736f6e', NULL, 'decode', 'InvalidJson', 'not JSON: expecting value at character 0: poison', NULL, 'open', NULL, NULL),
	('old_transfers', 2, 'old_transfers', '<topic id of old_transfers>', 3, 8, 1795322582067, NULL, '\x706f69736f6e', NULL, 'decode', 'InvalidJson', 'not JSON: expecting value at character 0: poison', NULL, 'open', NULL, NULL),
	('old_transfers', 2, 'old_transfers', '<topic id of old_transfers>', 3, 9, 1795322582067, NULL, '\x706f69736f6e', NULL, 'decode', 'InvalidJson', 'not JSON: expecting value at character 0: poison', NULL, 'open', NULL, NULL),
	('old_views', 11, 'old_views', '<topic id of old_views>', 0, 4, 1795322595049, NULL, '\x6e6f74206a736f6e', NULL, 'decode', 'InvalidJson', 'not JSON: expecting value at character 0: not json', NULL, 'open', NULL, NULL);
INSERT INTO tidegate.declared_skip VALUES
	('old_transfers', '<topic id of old_transfers>', 0, 11, 13, 'agreed with the team that owns the topic', 'ada', '2026-11-22 04:43:06.11988+00');
INSERT INTO tidegate.lineage_event OVERRIDING SYSTEM VALUE VALUES
	(1, 1, '{"job": {"name": "old_transfers", "facets": {}, "namespace": "tidegate"}, "run": {"runId": "2170a440-dda5-58eb-84b9-e153365a084e", "facets": {}}, "inputs": [{"name": "old_transfers", "facets": {}, "namespace": "kafka://127.0.0.1:29355", "inputFacets": {"dataQualityAssertions": {"_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-1-0/DataQualityAssertionsDatasetFacet.json#/$defs/DataQualityAssertionsDatasetFacet", "assertions": [{"params": {}, "success": false, "assertion": "message_decodes"}, {"params": {}, "success": false, "assertion": "transfer_id_required"}, {"params": {}, "success": true, "assertion": "transfer_id_pattern"}, {"params": {}, "success": true, "assertion": "debit_account_required"}, {"params": {}, "success": true, "assertion": "debit_account_pattern"}, {"params": {}, "success": true, "assertion": "credit_account_required"}, {"params": {}, "success": true, "assertion": "credit_account_pattern"}, {"params": {}, "success": true, "assertion": "amount_required"}, {"params": {}, "success": true, "assertion": "amount_minimum"}, {"params": {}, "success": true, "assertion": "amount_maximum"}, {"params": {}, "success": true, "assertion": "currency_required"}, {"params": {}, "success": true, "assertion": "currency_enum"}, {"params": {}, "success": true, "assertion": "occurred_at_required"}, {"params": {}, "success": true, "assertion": "memo_max_length"}, {"params": {}, "success": true, "assertion": "row_is_accepted"}, {"params": {}, "success": true, "assertion": "postings_sum_to_zero"}, {"params": {}, "success": true, "assertion": "postings_of_usual_size"}, {"params": {}, "success": true, "assertion": "postings_row_count"}]}}}], "outputs": [{"name": "old_transfers.postings", "facets": {}, "namespace": "postgres://127.0.0.1:31665", "outputFacets": {"outputStatistics": {"rowCount": 60, "_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet"}}}, {"name": "old_transfers.balances", "facets": {}, "namespace": "postgres://127.0.0.1:31665", "outputFacets": {}}], "producer": "https://pypi.org/project/tidegate", "eventTime": "2026-11-22T04:43:01.760641+00:00", "eventType": "COMPLETE", "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"}', NULL),
	(2, 2, '{"job": {"name": "old_transfers", "facets": {}, "namespace": "tidegate"}, "run": {"runId": "db9aff86-07d2-51ab-b488-28ee894d112e", "facets": {}}, "inputs": [{"name": "old_transfers", "facets": {}, "namespace": "kafka://127.0.0.1:29355", "inputFacets": {"dataQualityAssertions": {"_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-1-0/DataQualityAssertionsDatasetFacet.json#/$defs/DataQualityAssertionsDatasetFacet", "assertions": [{"params": {}, "success": false, "assertion": "message_decodes"}, {"params": {}, "success": true, "assertion": "transfer_id_required"}, {"params": {}, "success": true, "assertion": "transfer_id_pattern"}, {"params": {}, "success": true, "assertion": "debit_account_required"}, {"params": {}, "success": true, "assertion": "debit_account_pattern"}, {"params": {}, "success": true, "assertion": "credit_account_required"}, {"params": {}, "success": true, "assertion": "credit_account_pattern"}, {"params": {}, "success": true, "assertion": "amount_required"}, {"params": {}, "success": true, "assertion": "amount_minimum"}, {"params": {}, "success": true, "assertion": "amount_maximum"}, {"params": {}, "success": true, "assertion": "currency_required"}, {"params": {}, "success": true, "assertion": "currency_enum"}, {"params": {}, "success": true, "assertion": "occurred_at_required"}, {"params": {}, "success": true, "assertion": "memo_max_length"}, {"params": {}, "success": true, "assertion": "row_is_accepted"}, {"params": {}, "success": true, "assertion": "postings_sum_to_zero"}, {"params": {}, "success": true, "assertion": "postings_of_usual_size"}, {"params": {}, "success": true, "assertion": "postings_row_count"}]}}}], "outputs": [{"name": "old_transfers.postings", "facets": {}, "namespace": "postgres://127.0.0.1:31665", "outputFacets": {"outputStatistics": {"rowCount": 8, "_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet"}}}, {"name": "old_transfers.balances", "facets": {}, "namespace": "postgres://127.0.0.1:31665", "outputFacets": {}}], "producer": "https://pypi.org/project/tidegate", "eventTime": "2026-11-22T04:43:05.744549+00:00", "eventType": "COMPLETE", "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"}', NULL),
	(3, 3, '{"job": {"name": "old_transfers", "facets": {}, "namespace": "tidegate"}, "run": {"runId": "ad0a08af-1021-5a89-9838-6f76fa6bfc09", "facets": {}}, "inputs": [{"name": "old_transfers", "facets": {}, "namespace": "kafka://127.0.0.1:29355", "inputFacets": {"dataQualityAssertions": {"_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-1-0/DataQualityAssertionsDatasetFacet.json#/$defs/DataQualityAssertionsDatasetFacet", "assertions": [{"params": {}, "success": true, "assertion": "message_decodes"}, {"params": {}, "success": true, "assertion": "transfer_id_required"}, {"params": {}, "success": true, "assertion": "transfer_id_pattern"}, {"params": {}, "success": true, "assertion": "debit_account_required"}, {"params": {}, "success": true, "assertion": "debit_account_pattern"}, {"params": {}, "success": true, "assertion": "credit_account_required"}, {"params": {}, "success": true, "assertion": "credit_account_pattern"}, {"params": {}, "success": true, "assertion": "amount_required"}, {"params": {}, "success": true, "assertion": "amount_minimum"}, {"params": {}, "success": true, "assertion": "amount_maximum"}, {"params": {}, "success": true, "assertion": "currency_required"}, {"params": {}, "success": true, "assertion": "currency_enum"}, {"params": {}, "success": true, "assertion": "occurred_at_required"}, {"params": {}, "success": true, "assertion": "memo_max_length"}, {"params": {}, "success": true, "assertion": "row_is_accepted"}, {"params": {}, "success": true, "assertion": "postings_sum_to_zero"}, {"params": {}, "success": true, "assertion": "postings_of_usual_size"}, {"params": {}, "success": true, "assertion": "postings_row_count"}]}}}], "outputs": [{"name": "old_transfers.postings", "facets": {}, "namespace": "postgres://127.0.0.1:31665", "outputFacets": {"outputStatistics": {"rowCount": 20, "_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet"}}}, {"name": "old_transfers.balances", "facets": {}, "namespace": "postgres://127.0.0.1:31665", "outputFacets": {}}], "producer": "https://pypi.org/project/tidegate", "eventTime": "2026-11-22T04:43:07.332694+00:00", "eventType": "COMPLETE", "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"}', NULL),
	(4, 5, '{"job": {"name": "old_customers", "facets": {}, "namespace": "tidegate"}, "run": {"runId": "895a7b0f-dbe3-5164-98bf-4418461af1e3", "facets": {}}, "inputs": [{"name": "old_customers", "facets": {}, "namespace": "kafka://127.0.0.1:29355", "inputFacets": {"dataQualityAssertions": {"_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-1-0/DataQualityAssertionsDatasetFacet.json#/$defs/DataQualityAssertionsDatasetFacet", "assertions": [{"params": {}, "success": true, "assertion": "message_decodes"}, {"params": {}, "success": true, "assertion": "customer_id_required"}, {"params": {}, "success": true, "assertion": "customer_id_pattern"}, {"params": {}, "success": true, "assertion": "name_required"}, {"params": {}, "success": true, "assertion": "name_min_length"}, {"params": {}, "success": true, "assertion": "name_max_length"}, {"params": {}, "success": true, "assertion": "email_pattern"}, {"params": {}, "success": true, "assertion": "email_max_length"}, {"params": {}, "success": true, "assertion": "tier_required"}, {"params": {}, "success": true, "assertion": "tier_enum"}, {"params": {}, "success": true, "assertion": "signed_up_required"}, {"params": {}, "success": true, "assertion": "signed_up_minimum"}, {"params": {}, "success": true, "assertion": "row_is_accepted"}, {"params": {}, "success": true, "assertion": "customers_row_count"}]}}}], "outputs": [{"name": "old_customers.customers", "facets": {}, "namespace": "postgres://127.0.0.1:31665", "outputFacets": {"outputStatistics": {"rowCount": 12, "_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet"}}}], "producer": "https://pypi.org/project/tidegate", "eventTime": "2026-11-22T04:43:11.175206+00:00", "eventType": "COMPLETE", "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"}', NULL),
	(5, 6, '{"job": {"name": "old_customers", "facets": {}, "namespace": "tidegate"}, "run": {"runId": "fdd9cf8c-8c45-5272-baab-d13fd682f8ad", "facets": {}}, "inputs": [{"name": "old_customers", "facets": {}, "namespace": "kafka://127.0.0.1:29355", "inputFacets": {"dataQualityAssertions": {"_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-1-0/DataQualityAssertionsDatasetFacet.json#/$defs/DataQualityAssertionsDatasetFacet", "assertions": [{"params": {}, "success": true, "assertion": "message_decodes"}, {"params": {}, "success": true, "assertion": "customer_id_required"}, {"params": {}, "success": true, "assertion": "customer_id_pattern"}, {"params": {}, "success": true, "assertion": "name_required"}, {"params": {}, "success": true, "assertion": "name_min_length"}, {"params": {}, "success": true, "assertion": "name_max_length"}, {"params": {}, "success": true, "assertion": "email_pattern"}, {"params": {}, "success": true, "assertion": "email_max_length"}, {"params": {}, "success": true, "assertion": "tier_required"}, {"params": {}, "success": true, "assertion": "tier_enum"}, {"params": {}, "success": true, "assertion": "signed_up_required"}, {"params": {}, "success": true, "assertion": "signed_up_minimum"}, {"params": {}, "success": true, "assertion": "row_is_accepted"}, {"params": {}, "success": true, "assertion": "customers_row_count"}]}}}], "outputs": [{"name": "old_customers.customers", "facets": {}, "namespace": "postgres://127.0.0.1:31665", "outputFacets": {"outputStatistics": {"rowCount": 2, "_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet"}}}], "producer": "https://pypi.org/project/tidegate", "eventTime": "2026-11-22T04:43:11.970826+00:00", "eventType": "COMPLETE", "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"}', NULL),
	(6, 8, '{"job": {"name": "old_views", "facets": {}, "namespace": "tidegate"}, "run": {"runId": "d98aa426-462e-5c0b-9990-a89ac362d23b", "facets": {}}, "inputs": [{"name": "old_views", "facets": {}, "namespace": "kafka://127.0.0.1:29355", "inputFacets": {"dataQualityAssertions": {"_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-1-0/DataQualityAssertionsDatasetFacet.json#/$defs/DataQualityAssertionsDatasetFacet", "assertions": [{"params": {}, "success": true, "assertion": "message_decodes"}, {"params": {}, "success": true, "assertion": "event_id_required"}, {"params": {}, "success": true, "assertion": "event_id_min_length"}, {"params": {}, "success": true, "assertion": "event_id_max_length"}, {"params": {}, "success": true, "assertion": "visitor_required"}, {"params": {}, "success": true, "assertion": "visitor_min_length"}, {"params": {}, "success": true, "assertion": "visitor_max_length"}, {"params": {}, "success": true, "assertion": "url_required"}, {"params": {}, "success": true, "assertion": "url_pattern"}, {"params": {}, "success": true, "assertion": "url_max_length"}, {"params": {}, "success": true, "assertion": "referrer_max_length"}, {"params": {}, "success": true, "assertion": "viewed_at_required"}, {"params": {}, "success": true, "assertion": "duration_ms_minimum"}, {"params": {}, "success": true, "assertion": "duration_ms_maximum"}, {"params": {}, "success": true, "assertion": "row_is_accepted"}, {"params": {}, "success": true, "assertion": "event_id_unique"}]}}}], "outputs": [{"name": "old_views.page_views", "facets": {}, "namespace": "postgres://127.0.0.1:31665", "outputFacets": {"outputStatistics": {"rowCount": 8, "_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet"}}}], "producer": "https://pypi.org/project/tidegate", "eventTime": "2026-11-22T04:43:14.969306+00:00", "eventType": "COMPLETE", "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"}', NULL),
	(7, 9, '{"job": {"name": "old_views", "facets": {}, "namespace": "tidegate"}, "run": {"runId": "a8f79d36-37d7-539d-b751-b14ad77989b9", "facets": {}}, "inputs": [{"name": "old_views", "facets": {}, "namespace": "kafka://127.0.0.1:29355", "inputFacets": {"dataQualityAssertions": {"_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-1-0/DataQualityAssertionsDatasetFacet.json#/$defs/DataQualityAssertionsDatasetFacet", "assertions": [{"params": {}, "success": false, "assertion": "message_decodes"}, {"params": {}, "success": true, "assertion": "event_id_required"}, {"params": {}, "success": true, "assertion": "event_id_min_length"}, {"params": {}, "success": true, "assertion": "event_id_max_length"}, {"params": {}, "success": true, "assertion": "visitor_required"}, {"params": {}, "success": true, "assertion": "visitor_min_length"}, {"params": {}, "success": true, "assertion": "visitor_max_length"}, {"params": {}, "success": true, "assertion": "url_required"}, {"params": {}, "success": true, "assertion": "url_pattern"}, {"params": {}, "success": true, "assertion": "url_max_length"}, {"params": {}, "success": true, "assertion": "referrer_max_length"}, {"params": {}, "success": true, "assertion": "viewed_at_required"}, {"params": {}, "success": true, "assertion": "duration_ms_minimum"}, {"params": {}, "success": true, "assertion": "duration_ms_maximum"}, {"params": {}, "success": true, "assertion": "row_is_accepted"}, {"params": {}, "success": true, "assertion": "event_id_unique"}]}}}], "outputs": [{"name": "old_views.page_views", "facets": {}, "namespace": "postgres://127.0.0.1:31665", "outputFacets": {"outputStatistics": {"rowCount": 8, "_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet"}}}], "producer": "https://pypi.org/project/tidegate", "eventTime": "2026-11-22T04:43:15.755970+00:00", "eventType": "COMPLETE", "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"}', NULL),
	(8, 10, '{"job": {"name": "old_views", "facets": {}, "namespace": "tidegate"}, "run": {"runId": "7c7ee351-28e4-5f8c-abf3-d15edac689bc", "facets": {}}, "inputs": [{"name": "old_views", "facets": {}, "namespace": "kafka://127.0.0.1:29355", "inputFacets": {"dataQualityAssertions": {"_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-1-0/DataQualityAssertionsDatasetFacet.json#/$defs/DataQualityAssertionsDatasetFacet", "assertions": [{"params": {}, "success": true, "assertion": "message_decodes"}, {"params": {}, "success": true, "assertion": "event_id_required"}, {"params": {}, "success": true, "assertion": "event_id_min_length"}, {"params": {}, "success": true, "assertion": "event_id_max_length"}, {"params": {}, "success": true, "assertion": "visitor_required"}, {"params": {}, "success": true, "assertion": "visitor_min_length"}, {"params": {}, "success": true, "assertion": "visitor_max_length"}, {"params": {}, "success": true, "assertion": "url_required"}, {"params": {}, "success": true, "assertion": "url_pattern"}, {"params": {}, "success": true, "assertion": "url_max_length"}, {"params": {}, "success": true, "assertion": "referrer_max_length"}, {"params": {}, "success": true, "assertion": "viewed_at_required"}, {"params": {}, "success": true, "assertion": "duration_ms_minimum"}, {"params": {}, "success": true, "assertion": "duration_ms_maximum"}, {"params": {}, "success": true, "assertion": "row_is_accepted"}, {"params": {}, "success": true, "assertion": "event_id_unique"}]}}}], "outputs": [{"name": "old_views.page_views", "facets": {}, "namespace": "postgres://127.0.0.1:31665", "outputFacets": {"outputStatistics": {"rowCount": 8, "_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet"}}}], "producer": "https://pypi.org/project/tidegate", "eventTime": "2026-11-22T04:43:17.837492+00:00", "eventType": "COMPLETE", "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"}', NULL),
	(9, 11, '{"job": {"name": "old_views", "facets": {}, "namespace": "tidegate"}, "run": {"runId": "d6fd41d8-6516-5f9c-90b7-41bb26b670b0", "facets": {}}, "inputs": [{"name": "old_views", "facets": {}, "namespace": "kafka://127.0.0.1:29355", "inputFacets": {"dataQualityAssertions": {"_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-1-0/DataQualityAssertionsDatasetFacet.json#/$defs/DataQualityAssertionsDatasetFacet", "assertions": [{"params": {}, "success": false, "assertion": "message_decodes"}, {"params": {}, "success": true, "assertion": "event_id_required"}, {"params": {}, "success": true, "assertion": "event_id_min_length"}, {"params": {}, "success": true, "assertion": "event_id_max_length"}, {"params": {}, "success": true, "assertion": "visitor_required"}, {"params": {}, "success": true, "assertion": "visitor_min_length"}, {"params": {}, "success": true, "assertion": "visitor_max_length"}, {"params": {}, "success": true, "assertion": "url_required"}, {"params": {}, "success": true, "assertion": "url_pattern"}, {"params": {}, "success": true, "assertion": "url_max_length"}, {"params": {}, "success": true, "assertion": "referrer_max_length"}, {"params": {}, "success": true, "assertion": "viewed_at_required"}, {"params": {}, "success": true, "assertion": "duration_ms_minimum"}, {"params": {}, "success": true, "assertion": "duration_ms_maximum"}, {"params": {}, "success": true, "assertion": "row_is_accepted"}, {"params": {}, "success": true, "assertion": "event_id_unique"}]}}}], "outputs": [{"name": "old_views.page_views", "facets": {}, "namespace": "postgres://127.0.0.1:31665", "outputFacets": {"outputStatistics": {"rowCount": 24, "_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet"}}}], "producer": "https://pypi.org/project/tidegate", "eventTime": "2026-11-22T04:43:19.373653+00:00", "eventType": "COMPLETE", "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"}', NULL),
	(10, 12, '{"job": {"name": "old_views", "facets": {}, "namespace": "tidegate"}, "run": {"runId": "c4026e47-8139-51c9-966c-388977c6af1d", "facets": {}}, "inputs": [{"name": "old_views", "facets": {}, "namespace": "kafka://127.0.0.1:29355", "inputFacets": {"dataQualityAssertions": {"_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-1-0/DataQualityAssertionsDatasetFacet.json#/$defs/DataQualityAssertionsDatasetFacet", "assertions": [{"params": {}, "success": true, "assertion": "message_decodes"}, {"params": {}, "success": true, "assertion": "event_id_required"}, {"params": {}, "success": true, "assertion": "event_id_min_length"}, {"params": {}, "success": true, "assertion": "event_id_max_length"}, {"params": {}, "success": true, "assertion": "visitor_required"}, {"params": {}, "success": true, "assertion": "visitor_min_length"}, {"params": {}, "success": true, "assertion": "visitor_max_length"}, {"params": {}, "success": true, "assertion": "url_required"}, {"params": {}, "success": true, "assertion": "url_pattern"}, {"params": {}, "success": true, "assertion": "url_max_length"}, {"params": {}, "success": true, "assertion": "referrer_max_length"}, {"params": {}, "success": true, "assertion": "viewed_at_required"}, {"params": {}, "success": true, "assertion": "duration_ms_minimum"}, {"params": {}, "success": true, "assertion": "duration_ms_maximum"}, {"params": {}, "success": true, "assertion": "row_is_accepted"}, {"params": {}, "success": true, "assertion": "event_id_unique"}]}}}], "outputs": [{"name": "old_views.page_views", "facets": {}, "namespace": "postgres://127.0.0.1:31665", "outputFacets": {"outputStatistics": {"rowCount": 4, "_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet"}}}], "producer": "https://pypi.org/project/tidegate", "eventTime": "2026-11-22T04:43:20.438073+00:00", "eventType": "COMPLETE", "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"}', NULL),
	(11, 13, '{"job": {"name": "old_views", "facets": {}, "namespace": "tidegate"}, "run": {"runId": "8007d1bd-8e8d-5884-b76d-dede03768c5c", "facets": {}}, "inputs": [{"name": "old_views", "facets": {}, "namespace": "kafka://127.0.0.1:29355", "inputFacets": {"dataQualityAssertions": {"_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-1-0/DataQualityAssertionsDatasetFacet.json#/$defs/DataQualityAssertionsDatasetFacet", "assertions": [{"params": {}, "success": true, "assertion": "message_decodes"}, {"params": {}, "success": true, "assertion": "event_id_required"}, {"params": {}, "success": true, "assertion": "event_id_min_length"}, {"params": {}, "success": true, "assertion": "event_id_max_length"}, {"params": {}, "success": true, "assertion": "visitor_required"}, {"params": {}, "success": true, "assertion": "visitor_min_length"}, {"params": {}, "success": true, "assertion": "visitor_max_length"}, {"params": {}, "success": true, "assertion": "url_required"}, {"params": {}, "success": true, "assertion": "url_pattern"}, {"params": {}, "success": true, "assertion": "url_max_length"}, {"params": {}, "success": true, "assertion": "referrer_max_length"}, {"params": {}, "success": true, "assertion": "viewed_at_required"}, {"params": {}, "success": true, "assertion": "duration_ms_minimum"}, {"params": {}, "success": true, "assertion": "duration_ms_maximum"}, {"params": {}, "success": true, "assertion": "row_is_accepted"}, {"params": {}, "success": true, "assertion": "event_id_unique"}]}}}], "outputs": [{"name": "old_views.page_views", "facets": {}, "namespace": "postgres://127.0.0.1:31665", "outputFacets": {"outputStatistics": {"rowCount": 4, "_producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python", "_schemaURL": "https://openlineage.io/spec/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet"}}}], "producer": "https://pypi.org/project/tidegate", "eventTime": "2026-11-22T04:43:21.734048+00:00", "eventType": "COMPLETE", "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"}', NULL);
INSERT INTO tidegate.migration VALUES
	('001_ledger.sql', '2026-11-22 04:41:59.624617+00'),
	('002_settlements.sql', '2026-11-22 04:41:59.624617+00'),
	('003_dead_letter_keys.sql', '2026-11-22 04:41:59.624617+00'),
	('004_replays.sql', '2026-11-22 04:41:59.624617+00');
INSERT INTO tidegate.output VALUES
	(16718, 'old_transfers.postings', 'old_transfers', 'append'),
	(16731, 'old_transfers.balances', 'old_transfers', 'accumulate'),
	(16783, 'old_customers.customers', 'old_customers', 'upsert'),
	(16820, 'old_views.page_views', 'old_views', 'append'),
	(16891, 'old_views__replay.page_views', 'old_views~replay', 'append');
INSERT INTO tidegate.pipeline VALUES
	('old_customers', 3, NULL, NULL, 'halted', 'too_many_dead_letters', '{"samples": [{"field": null, "offset": 3, "message": "not JSON: expecting value at character 0: poison", "partition": 2}, {"field": null, "offset": 4, "message": "not JSON: expecting value at character 0: poison", "partition": 2}, {"field": null, "offset": 5, "message": "not JSON: expecting value at character 0: poison", "partition": 2}], "batch_id": 7, "messages": 8, "by_reason": {"InvalidJson": 8}, "dead_letters": 8}', '{"ranges": [{"topic": "old_customers", "partition": 2, "new_leader": false, "from_offset": 3, "leader_epoch": 0, "until_offset": 11}], "batch_id": 7, "topic_id": "<topic id of old_customers>", "cluster_id": "<cluster id>", "dead_letters_accepted": false}', 0, NULL, '2026-11-22 04:43:12.333446+00'),
	('old_transfers', 8, NULL, NULL, 'active', NULL, NULL, '{"ranges": [{"topic": "old_transfers", "partition": 0, "new_leader": false, "from_offset": 14, "leader_epoch": 0, "until_offset": 16}, {"topic": "old_transfers", "partition": 1, "new_leader": false, "from_offset": 14, "leader_epoch": 0, "until_offset": 16}, {"topic": "old_transfers", "partition": 2, "new_leader": false, "from_offset": 14, "leader_epoch": 0, "until_offset": 16}, {"topic": "old_transfers", "partition": 3, "new_leader": false, "from_offset": 14, "leader_epoch": 0, "until_offset": 16}], "batch_id": 4, "topic_id": "<topic id of old_transfers>", "cluster_id": "<cluster id>", "dead_letters_accepted": false}', 1, '2026-11-22 04:43:39.028917+00', '2026-11-22 04:43:09.030899+00'),
	('old_views', 5, NULL, NULL, 'active', NULL, NULL, NULL, 0, NULL, '2026-11-22 04:43:20.54333+00'),
	('old_views~replay', 1, NULL, NULL, 'active', NULL, NULL, NULL, 0, NULL, '2026-11-22 04:43:21.797773+00');
INSERT INTO tidegate.replay OVERRIDING SYSTEM VALUE VALUES
	(1, 'old_views', 8, 'a1dfb7a87378bb85', '2026-11-22 04:43:18.18782+00', '2026-11-22 04:43:19.725427+00', 'ada', 'after a fix', '[{"anew": 24, "live": 24, "name": "old_views.page_views", "samples": [], "only_anew": 0, "only_live": 0}, {"anew": 1, "live": 1, "name": "dead letters", "samples": [], "only_anew": 0, "only_live": 0}]'),
	(2, 'old_views', 12, 'd1898271ad649848', '2026-11-22 04:43:20.778454+00', NULL, NULL, NULL, NULL);
INSERT INTO tidegate.settlement OVERRIDING SYSTEM VALUE VALUES
	(1, 'old_transfers', 'too_many_dead_letters', '{"samples": [{"field": null, "offset": 8, "message": "not JSON: expecting value at character 0: poison", "partition": 0}, {"field": null, "offset": 9, "message": "not JSON: expecting value at character 0: poison", "partition": 0}, {"field": null, "offset": 8, "message": "not JSON: expecting value at character 0: poison", "partition": 1}], "batch_id": 2, "messages": 12, "by_reason": {"InvalidJson": 8}, "dead_letters": 8}', '{"code": "too_many_dead_letters", "epoch": 2, "state": "halted", "steps": [], "accept": true, "detail": {"samples": [{"field": null, "offset": 8, "message": "not JSON: expecting value at character 0: poison", "partition": 0}, {"field": null, "offset": 9, "message": "not JSON: expecting value at character 0: poison", "partition": 0}, {"field": null, "offset": 8, "message": "not JSON: expecting value at character 0: poison", "partition": 1}], "batch_id": 2, "messages": 12, "by_reason": {"InvalidJson": 8}, "dead_letters": 8}, "pipeline": "old_transfers", "explanation": "Batch 2 is published with its 8 dead letters. (If the contract is wrong, mend it instead: nothing was published.)", "fingerprint": "88b3c8f6a8b0", "keep_pending": true}', 2, 'agreed with the team that owns the topic', 'ada', '2026-11-22 04:43:04.027601+00'),
	(2, 'old_transfers', 'retention_passed', '{"ranges": [{"partition": 0, "from_offset": 11, "until_offset": 13}]}', '{"code": "retention_passed", "epoch": 5, "state": "halted", "steps": [{"was": {"topic_id": "<topic id of old_transfers>", "cluster_id": "<cluster id>", "next_offset": 11, "start_offset": 0}, "lost": null, "skip": [11, 13], "becomes": {"topic_id": "<topic id of old_transfers>", "cluster_id": "<cluster id>", "next_offset": 13, "start_offset": 0}, "partition": 0}], "accept": false, "detail": {"ranges": [{"partition": 0, "from_offset": 11, "until_offset": 13}]}, "pipeline": "old_transfers", "explanation": "The offsets that retention deleted are given up; reading goes on at the first that is left.", "fingerprint": "4e8edb75d86e", "keep_pending": false}', 5, 'agreed with the team that owns the topic', 'ada', '2026-11-22 04:43:06.11988+00');
INSERT INTO tidegate.source_position VALUES
	('old_views', 'old_views', 0, '<cluster id>', '<topic id of old_views>', 0, 8, 0, 8, 12, '2026-11-22 04:43:20.472251+00', false),
	('old_views', 'old_views', 1, '<cluster id>', '<topic id of old_views>', 0, 7, 0, 7, 12, '2026-11-22 04:43:20.472251+00', false),
	('old_views', 'old_views', 2, '<cluster id>', '<topic id of old_views>', 0, 7, 0, 7, 12, '2026-11-22 04:43:20.472251+00', false),
	('old_views', 'old_views', 3, '<cluster id>', '<topic id of old_views>', 0, 7, 0, 7, 12, '2026-11-22 04:43:20.472251+00', false),
	('old_transfers', 'old_transfers', 0, '<cluster id>', '<topic id of old_transfers>', 0, 14, 0, 14, 3, '2026-11-22 04:43:07.365333+00', false),
	('old_transfers', 'old_transfers', 1, '<cluster id>', '<topic id of old_transfers>', 0, 14, 0, 14, 3, '2026-11-22 04:43:07.365333+00', false),
	('old_transfers', 'old_transfers', 2, '<cluster id>', '<topic id of old_transfers>', 0, 14, 0, 14, 3, '2026-11-22 04:43:07.365333+00', false),
	('old_transfers', 'old_transfers', 3, '<cluster id>', '<topic id of old_transfers>', 0, 14, 0, 14, 3, '2026-11-22 04:43:07.365333+00', false),
	('old_customers', 'old_customers', 0, '<cluster id>', '<topic id of old_customers>', 0, 3, 0, 3, 5, '2026-11-22 04:43:11.197616+00', false),
	('old_customers', 'old_customers', 2, '<cluster id>', '<topic id of old_customers>', 0, 3, 0, 3, 5, '2026-11-22 04:43:11.197616+00', false),
	('old_customers', 'old_customers', 3, '<cluster id>', '<topic id of old_customers>', 0, 3, 0, 3, 5, '2026-11-22 04:43:11.197616+00', false),
	('old_customers', 'old_customers', 1, '<cluster id>', '<topic id of old_customers>', 0, 5, 0, 5, 6, '2026-11-22 04:43:12.011442+00', false),
	('old_views~replay', 'old_views', 0, '<cluster id>', '<topic id of old_views>', 7, 8, 0, 8, 13, '2026-11-22 04:43:21.753628+00', false),
	('old_views~replay', 'old_views', 1, '<cluster id>', '<topic id of old_views>', 6, 7, 0, 7, 13, '2026-11-22 04:43:21.753628+00', false),
	('old_views~replay', 'old_views', 2, '<cluster id>', '<topic id of old_views>', 6, 7, 0, 7, 13, '2026-11-22 04:43:21.753628+00', false),
	('old_views~replay', 'old_views', 3, '<cluster id>', '<topic id of old_views>', 6, 7, 0, 7, 13, '2026-11-22 04:43:21.753628+00', false);
INSERT INTO tidegate.staging VALUES
	(5, 'old_transfers', 4, 8, '2026-11-22 04:43:07.561002+00'),
	(8, 'old_customers', 7, 3, '2026-11-22 04:43:12.129714+00');
INSERT INTO tidegate_staging.coverage VALUES
	(5, 'd1703b70-0a68-4e00-8eb1-1dd649bc8d63', 0, 14, 16, 2, 2, 0, 0, '{}', 0),
	(5, '27895786-4ace-4252-8a8b-66c798559688', 1, 14, 16, 2, 2, 0, 0, '{}', 0),
	(5, '9def1e8c-4351-4ef5-95a9-92c0be0ec86b', 2, 14, 16, 2, 2, 0, 0, '{}', 0),
	(5, 'a8b95f4f-2ad6-4e41-be0f-45c105da52ae', 3, 14, 16, 2, 2, 0, 0, '{}', 0),
	(8, '69dcc519-638d-49d4-9e11-fdd3c62596b6', 2, 3, 11, 8, 0, 8, 0, '{}', 0);
INSERT INTO tidegate_staging.dead_letter VALUES
	(8, '69dcc519-638d-49d4-9e11-fdd3c62596b6', 2, 3, 1795322592068, '\x4332', '\x706f69736f6e', NULL, NULL, 'decode', 'InvalidJson', 'not JSON: expecting value at character 0: poison', NULL),
	(8, '69dcc519-638d-49d4-9e11-fdd3c62596b6', 2, 4, 1795322592068, '\x4336', '\x706f69736f6e', NULL, NULL, 'decode', 'InvalidJson', 'not JSON: expecting value at character 0: poison', NULL),
	(8, '69dcc519-638d-49d4-9e11-fdd3c62596b6', 2, 5, 1795322592068, '\x433130', '\x706f69736f6e', NULL, NULL, 'decode', 'InvalidJson', 'not JSON: expecting value at character 0: poison', NULL),
	(8, '69dcc519-638d-49d4-9e11-fdd3c62596b6', 2, 6, 1795322592068, '\x4332', '\x706f69736f6e', NULL, NULL, 'decode', 'InvalidJson', 'not JSON: expecting value at character 0: poison', NULL),
	(8, '69dcc519-638d-49d4-9e11-fdd3c62596b6', 2, 7, 1795322592068, '\x4336', '\x706f69736f6e', NULL, NULL, 'decode', 'InvalidJson', 'not JSON: expecting value at character 0: poison', NULL),
	(8, '69dcc519-638d-49d4-9e11-fdd3c62596b6', 2, 8, 1795322592068, '\x433130', '\x706f69736f6e', NULL, NULL, 'decode', 'InvalidJson', 'not JSON: expecting value at character 0: poison', NULL),
	(8, '69dcc519-638d-49d4-9e11-fdd3c62596b6', 2, 9, 1795322592068, '\x4332', '\x706f69736f6e', NULL, NULL, 'decode', 'InvalidJson', 'not JSON: expecting value at character 0: poison', NULL),
	(8, '69dcc519-638d-49d4-9e11-fdd3c62596b6', 2, 10, 1795322592068, '\x4332', '\x706f69736f6e', NULL, NULL, 'decode', 'InvalidJson', 'not JSON: expecting value at character 0: poison', NULL);
INSERT INTO tidegate_staging.rows_5 VALUES
	('T47', 'A00046', -47.46, 'EUR', '2026-11-01 10:00:00+00', 0, 14, '1e068b70-8ffd-4924-bd58-8157964eba45'),
	('T47', 'A00023', 47.46, 'EUR', '2026-11-01 10:00:00+00', 0, 14, '1e068b70-8ffd-4924-bd58-8157964eba45'),
	('T51', 'A00050', -51.50, 'EUR', '2026-11-01 10:00:00+00', 0, 15, '1e068b70-8ffd-4924-bd58-8157964eba45'),
	('T51', 'A00051', 51.50, 'EUR', '2026-11-01 10:00:00+00', 0, 15, '1e068b70-8ffd-4924-bd58-8157964eba45'),
	('T48', 'A00047', -48.47, 'EUR', '2026-11-01 10:00:00+00', 1, 14, 'face7e59-cfc4-4ac7-b406-71aa929eb801'),
	('T48', 'A00030', 48.47, 'EUR', '2026-11-01 10:00:00+00', 1, 14, 'face7e59-cfc4-4ac7-b406-71aa929eb801'),
	('T52', 'A00051', -52.51, 'EUR', '2026-11-01 10:00:00+00', 1, 15, 'face7e59-cfc4-4ac7-b406-71aa929eb801'),
	('T52', 'A00058', 52.51, 'EUR', '2026-11-01 10:00:00+00', 1, 15, 'face7e59-cfc4-4ac7-b406-71aa929eb801'),
	('T49', 'A00048', -49.48, 'EUR', '2026-11-01 10:00:00+00', 2, 14, '86aa887c-fe87-4391-a1fc-7e12b0abc9dc'),
	('T49', 'A00037', 49.48, 'EUR', '2026-11-01 10:00:00+00', 2, 14, '86aa887c-fe87-4391-a1fc-7e12b0abc9dc'),
	('T53', 'A00052', -53.52, 'EUR', '2026-11-01 10:00:00+00', 2, 15, '86aa887c-fe87-4391-a1fc-7e12b0abc9dc'),
	('T53', 'A00065', 53.52, 'EUR', '2026-11-01 10:00:00+00', 2, 15, '86aa887c-fe87-4391-a1fc-7e12b0abc9dc'),
	('T50', 'A00049', -50.49, 'EUR', '2026-11-01 10:00:00+00', 3, 14, 'e1981ed1-09fd-417a-8327-b9a6f0e0ad2f'),
	('T50', 'A00044', 50.49, 'EUR', '2026-11-01 10:00:00+00', 3, 14, 'e1981ed1-09fd-417a-8327-b9a6f0e0ad2f'),
	('T54', 'A00053', -54.53, 'EUR', '2026-11-01 10:00:00+00', 3, 15, 'e1981ed1-09fd-417a-8327-b9a6f0e0ad2f'),
	('T54', 'A00072', 54.53, 'EUR', '2026-11-01 10:00:00+00', 3, 15, 'e1981ed1-09fd-417a-8327-b9a6f0e0ad2f');
SELECT pg_catalog.setval('tidegate.batch_id', 13, true);
SELECT pg_catalog.setval('tidegate.lineage_event_sequence_seq', 11, true);
SELECT pg_catalog.setval('tidegate.replay_replay_id_seq', 2, true);
SELECT pg_catalog.setval('tidegate.settlement_settlement_id_seq', 2, true);
SELECT pg_catalog.setval('tidegate.staging_id', 14, true);
ALTER TABLE ONLY old_customers.customers
    ADD CONSTRAINT customers_pkey PRIMARY KEY (_key);
ALTER TABLE ONLY old_transfers.balances
    ADD CONSTRAINT balances_pkey PRIMARY KEY (account);
ALTER TABLE ONLY tidegate.batch
    ADD CONSTRAINT batch_pkey PRIMARY KEY (batch_id);
ALTER TABLE ONLY tidegate.batch_range
    ADD CONSTRAINT batch_range_pkey PRIMARY KEY (batch_id, partition, from_offset);
ALTER TABLE ONLY tidegate.check_result
    ADD CONSTRAINT check_result_pkey PRIMARY KEY (batch_id, table_name, check_name);
ALTER TABLE ONLY tidegate.dead_letter
    ADD CONSTRAINT dead_letter_pipeline_topic_id_partition_offset_key UNIQUE (pipeline, topic_id, partition, "offset");
ALTER TABLE ONLY tidegate.declared_skip
    ADD CONSTRAINT declared_skip_pkey PRIMARY KEY (pipeline, topic_id, partition, from_offset);
ALTER TABLE ONLY tidegate.lineage_event
    ADD CONSTRAINT lineage_event_pkey PRIMARY KEY (sequence);
ALTER TABLE ONLY tidegate.lost_history
    ADD CONSTRAINT lost_history_pkey PRIMARY KEY (settlement_id, partition);
ALTER TABLE ONLY tidegate.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (name);
ALTER TABLE ONLY tidegate.output
    ADD CONSTRAINT output_pkey PRIMARY KEY (table_oid);
ALTER TABLE ONLY tidegate.pipeline
    ADD CONSTRAINT pipeline_pkey PRIMARY KEY (name);
ALTER TABLE ONLY tidegate.replay
    ADD CONSTRAINT replay_pkey PRIMARY KEY (replay_id);
ALTER TABLE ONLY tidegate.settlement
    ADD CONSTRAINT settlement_pkey PRIMARY KEY (settlement_id);
ALTER TABLE ONLY tidegate.source_position
    ADD CONSTRAINT source_position_pkey PRIMARY KEY (pipeline, topic, partition);
ALTER TABLE ONLY tidegate.staging
    ADD CONSTRAINT staging_pkey PRIMARY KEY (staging_id);
ALTER TABLE ONLY tidegate_staging.coverage
    ADD CONSTRAINT coverage_pkey PRIMARY KEY (attempt);
CREATE INDEX batch_by_pipeline ON tidegate.batch USING btree (pipeline, batch_id);
CREATE INDEX batch_untold ON tidegate.batch USING btree (pipeline) WHERE (told_at IS NULL);
CREATE INDEX dead_letter_by_batch ON tidegate.dead_letter USING btree (batch_id);
CREATE INDEX lineage_event_waiting ON tidegate.lineage_event USING btree (sequence) WHERE (emitted_at IS NULL);
CREATE UNIQUE INDEX replay_in_building ON tidegate.replay USING btree (pipeline) WHERE (executed_at IS NULL);
CREATE INDEX coverage_by_staging ON tidegate_staging.coverage USING btree (staging_id);
CREATE INDEX staged_dead_letter_by_attempt ON tidegate_staging.dead_letter USING btree (staging_id, attempt);
ALTER TABLE ONLY tidegate.batch
    ADD CONSTRAINT batch_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tidegate.pipeline(name);
ALTER TABLE ONLY tidegate.batch_range
    ADD CONSTRAINT batch_range_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES tidegate.batch(batch_id);
ALTER TABLE ONLY tidegate.batch
    ADD CONSTRAINT batch_replaced_by_fkey FOREIGN KEY (replaced_by) REFERENCES tidegate.replay(replay_id);
ALTER TABLE ONLY tidegate.check_result
    ADD CONSTRAINT check_result_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES tidegate.batch(batch_id);
ALTER TABLE ONLY tidegate.dead_letter
    ADD CONSTRAINT dead_letter_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES tidegate.batch(batch_id);
ALTER TABLE ONLY tidegate.declared_skip
    ADD CONSTRAINT declared_skip_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tidegate.pipeline(name);
ALTER TABLE ONLY tidegate.lineage_event
    ADD CONSTRAINT lineage_event_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES tidegate.batch(batch_id);
ALTER TABLE ONLY tidegate.lost_history
    ADD CONSTRAINT lost_history_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tidegate.pipeline(name);
ALTER TABLE ONLY tidegate.lost_history
    ADD CONSTRAINT lost_history_settlement_id_fkey FOREIGN KEY (settlement_id) REFERENCES tidegate.settlement(settlement_id);
ALTER TABLE ONLY tidegate.output
    ADD CONSTRAINT output_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tidegate.pipeline(name);
ALTER TABLE ONLY tidegate.replay
    ADD CONSTRAINT replay_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tidegate.pipeline(name);
ALTER TABLE ONLY tidegate.settlement
    ADD CONSTRAINT settlement_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tidegate.pipeline(name);
ALTER TABLE ONLY tidegate.source_position
    ADD CONSTRAINT source_position_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tidegate.pipeline(name);
ALTER TABLE ONLY tidegate.staging
    ADD CONSTRAINT staging_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tidegate.pipeline(name);
