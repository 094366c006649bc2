-- demo_totals: the totals of the pipeline bank_transfers for `tidegate demo`: its batches, its tables, its dead
-- letters.
SELECT coalesce((SELECT messages_total FROM tidegate.pipeline WHERE name = 'bank_transfers'), 0) AS messages,
       (SELECT count(*) FROM bank.postings) AS postings,
       (SELECT count(*) FROM tidegate.dead_letter WHERE pipeline = 'bank_transfers') AS dead_letters,
       (SELECT count(*) FROM bank.balances) AS accounts,
       (SELECT sum(balance) FROM bank.balances) AS balances_sum,
       (SELECT round(messages / (SELECT sum(value::numeric) FROM jsonb_each_text(timings)))::bigint FROM tidegate.batch
         WHERE pipeline = 'bank_transfers' ORDER BY batch_id DESC LIMIT 1) AS messages_per_second;

-- demo_reasons: the dead letters of bank_transfers by stage and error class, most first.
SELECT stage || ': ' || error_class, count(*) FROM tidegate.dead_letter
 WHERE pipeline = 'bank_transfers' GROUP BY 1 ORDER BY 2 DESC, 1;

-- demo_delivery_lock: true if no other `tidegate demo delivery` is running in this database; then none can start while
-- this session lasts.
SELECT pg_try_advisory_lock(hashtextextended('tidegate demo delivery', 0));

-- demo_delivery_schema: the comment on the schema of `tidegate demo delivery`; no row if there is no such schema.
SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = 'tidegate_demo';

-- demo_delivery_right: true if this user may create a schema, with the names that a GRANT takes.
SELECT has_database_privilege(current_database(), 'CREATE'), quote_ident(current_database()), quote_ident(current_user);

-- demo_delivery_make: the schema, with the comment by which a later run recognizes it. Positions belong to
-- exactly_once.
CREATE SCHEMA tidegate_demo;
COMMENT ON SCHEMA tidegate_demo IS 'made by tidegate demo delivery';
CREATE TABLE tidegate_demo.topic (topic_id text NOT NULL);
CREATE TABLE tidegate_demo.postings (
    semantics text NOT NULL,
    transfer integer NOT NULL,
    account text NOT NULL,
    amount numeric(12, 2) NOT NULL  -- below 0 for the debit
);
CREATE TABLE tidegate_demo.positions (partition integer PRIMARY KEY, next_offset bigint NOT NULL);
INSERT INTO tidegate_demo.positions VALUES (0, 0);

-- demo_delivery_topic: the topic that an earlier run has made, and has not deleted.
SELECT topic_id FROM tidegate_demo.topic;

-- demo_delivery_keep_topic: recorded before a message is sent.
INSERT INTO tidegate_demo.topic VALUES (%(topic_id)s);

-- demo_delivery_counts: a consumer's transfers with both postings, its transfers with a posting that was written more
-- than once, and the sum of the balances.
SELECT count(*) FILTER (WHERE debits > 0 AND credits > 0) AS whole,
       count(*) FILTER (WHERE debits > 1 OR credits > 1) AS duplicated,
       coalesce(sum(balance), 0.00) AS balances_sum
  FROM (SELECT count(*) FILTER (WHERE amount < 0) AS debits, count(*) FILTER (WHERE amount > 0) AS credits,
               sum(amount) AS balance
          FROM tidegate_demo.postings WHERE semantics = %(semantics)s GROUP BY transfer) AS each_transfer;

-- demo_delivery_drop: after a run, or before the next if one was kept or killed.
DROP SCHEMA tidegate_demo CASCADE;
