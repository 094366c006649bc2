-- verify_positions: the first and the next offset of each partition, with its topic.
SELECT partition, topic, topic_id, start_offset, next_offset
  FROM tidegate.source_position WHERE pipeline = %(pipeline)s ORDER BY partition;

-- verify_ranges: the ranges that the committed batches recorded, whether some of it never came, and the contract,
-- transform and application of the contract; for the batches after one, up to another. For pruned batches, which no log
-- has any more, only their places.
SELECT r.partition, r.from_offset, r.until_offset, r.batch_id, NOT isempty(r.gaps) AS has_gaps,
       false AS pruned, b.contract_digest, b.transform_digest, b.contract_application
  FROM tidegate.batch_range AS r JOIN tidegate.batch AS b USING (batch_id)
 WHERE b.pipeline = %(pipeline)s AND b.replaced_by IS NULL AND b.batch_id > %(after)s AND b.batch_id <= %(until)s
 UNION ALL
SELECT partition, from_offset, until_offset, last_batch, NOT isempty(gaps), true, NULL, NULL, NULL
  FROM tidegate.pruned_range WHERE pipeline = %(pipeline)s AND last_batch > %(after)s
 ORDER BY partition, from_offset;

-- verify_gaps: the offsets of these ranges that never came.
SELECT r.partition, r.batch_id, greatest(lower(g), r.from_offset), least(upper(g), r.until_offset)
  FROM tidegate.batch_range AS r JOIN tidegate.batch AS b USING (batch_id), unnest(r.gaps) AS g
 WHERE b.pipeline = %(pipeline)s AND b.replaced_by IS NULL AND b.batch_id > %(after)s AND b.batch_id <= %(until)s
 UNION ALL
SELECT r.partition, r.last_batch, greatest(lower(g), r.from_offset), least(upper(g), r.until_offset)
  FROM tidegate.pruned_range AS r, unnest(r.gaps) AS g
 WHERE r.pipeline = %(pipeline)s AND r.last_batch > %(after)s;

-- verify_settled: offsets of dead letters that were settled and are pruned.
SELECT d.partition, lower(g), upper(g)
  FROM tidegate.pruned_dead_letter AS d JOIN tidegate.source_position AS p USING (pipeline, topic_id, partition),
       unnest(d.offsets) AS g
 WHERE d.pipeline = %(pipeline)s ORDER BY 1, 2;

-- verify_skipped_records: how many messages of each committed range have records that the contract skips.
SELECT r.partition, r.from_offset, r.until_offset, r.batch_id, r.messages, r.skipped_records
  FROM tidegate.batch_range AS r JOIN tidegate.batch AS b USING (batch_id)
 WHERE b.pipeline = %(pipeline)s AND b.replaced_by IS NULL AND b.batch_id > %(after)s AND b.batch_id <= %(until)s
 ORDER BY r.partition, r.from_offset;

-- verify_skips: offsets that a user skipped.
SELECT s.partition, s.from_offset, s.until_offset
  FROM tidegate.declared_skip AS s JOIN tidegate.source_position AS p USING (pipeline, topic_id, partition)
 WHERE s.pipeline = %(pipeline)s AND p.topic = %(topic)s ORDER BY s.partition, s.from_offset;

-- verify_lost_history: offsets of batches whose messages no log has any more.
SELECT partition, from_offset, until_offset, until_batch
  FROM tidegate.lost_history WHERE pipeline = %(pipeline)s ORDER BY partition, from_offset;

-- verify_named_schemas: the schemas that messages of each range name, among those known when it was read.
SELECT s.partition, s.from_offset, r.until_offset, s.registry, s.generation, s.key
  FROM tidegate.batch_schema AS s
  JOIN tidegate.batch_range AS r USING (batch_id, partition, from_offset)
  JOIN tidegate.batch AS b USING (batch_id)
  JOIN tidegate.source_position AS p ON (p.pipeline, p.partition, p.topic_id) = (b.pipeline, s.partition, r.topic_id)
 WHERE b.pipeline = %(pipeline)s AND b.replaced_by IS NULL AND b.batch_id > %(after)s AND b.batch_id <= %(until)s
 ORDER BY s.partition, s.from_offset;

-- verify_schemas: these schemas.
SELECT registry, generation, key, format, document, "references", encrypted FROM tidegate.schema
 WHERE (registry, generation, key) IN (
         SELECT registry, generation, key FROM tidegate.batch_schema JOIN tidegate.batch USING (batch_id)
          WHERE pipeline = %(pipeline)s);

-- verify_batches: the next committed batches after one, with their number of messages.
SELECT batch_id, messages FROM tidegate.batch
 WHERE pipeline = %(pipeline)s AND batch_id > %(after)s AND replaced_by IS NULL ORDER BY batch_id LIMIT %(most)s;

-- verify_pruned: the last pruned batch. The summary of it and those before cannot be told apart by batch.
SELECT coalesce(max(last_batch), 0) FROM tidegate.pruned_range WHERE pipeline = %(pipeline)s;

-- verify_left: the number of messages that the batches after one have read.
SELECT coalesce(sum(messages), 0)::bigint FROM tidegate.batch
 WHERE pipeline = %(pipeline)s AND batch_id > %(after)s AND replaced_by IS NULL;

-- verify_basis: what else than a new batch may change the compared data. Settlements count if they moved a position, or
-- skipped offsets; a split batch has read the same ones.
SELECT (SELECT max(replay_id)::text FROM tidegate.replay
         WHERE pipeline = %(pipeline)s AND executed_at IS NOT NULL) AS replay,
       (SELECT max(adoption_id)::text FROM tidegate.adoption WHERE pipeline = %(pipeline)s) AS adoption,
       (SELECT max(settlement_id)::text FROM tidegate.settlement
         WHERE pipeline = %(pipeline)s AND halt_code <> 'recut'
           AND coalesce(actions->'steps', 'null') <> '[]') AS settlement,
       (SELECT contract_digest FROM tidegate.pipeline WHERE name = %(pipeline)s) AS contract,
       (SELECT max(number)::text FROM tidegate.contract_application
         WHERE pipeline = %(pipeline)s AND dropped <> '{}') AS dropped,
       (SELECT string_agg(concat_ws(' ', table_name, table_oid, definition), ', ' ORDER BY table_name)
          FROM tidegate.output WHERE pipeline = %(pipeline)s) AS tables,
       (SELECT string_agg(DISTINCT topic || ' ' || topic_id, ', ')
          FROM tidegate.source_position WHERE pipeline = %(pipeline)s) AS log;

-- verified: the point up to which the pipeline was compared.
SELECT moves, batch_id, offsets, sums, basis FROM tidegate.verified WHERE pipeline = %(pipeline)s;

-- verify_open_plan: the pending batch, if there is one. Ranges that are published one by one as its parts all have
-- higher ids, and those still to come may have lower ids than committed ones.
SELECT (pending ->> 'batch_id')::bigint FROM tidegate.pipeline WHERE name = %(pipeline)s AND pending IS NOT NULL;

-- move_verified: a compare-and-swap; touches one row, or another check has moved it.
INSERT INTO tidegate.verified AS v (pipeline, moves, batch_id, offsets, sums, basis)
VALUES (%(pipeline)s, %(moves)s + 1, %(batch_id)s, %(offsets)s, %(sums)s, %(basis)s)
    ON CONFLICT (pipeline) DO UPDATE
    SET moves = excluded.moves, batch_id = excluded.batch_id, offsets = excluded.offsets, sums = excluded.sums,
        basis = excluded.basis, moved_at = now()
  WHERE v.moves = %(moves)s;

-- record_check: the result of checking new batches.
INSERT INTO tidegate.verified AS v (pipeline, batch_id, offsets, sums, basis, checked_at, passed, explanation)
VALUES (%(pipeline)s, 0, '{}', '{}', '{}', now(), %(passed)s, %(explanation)s)
    ON CONFLICT (pipeline) DO UPDATE
    SET checked_at = now(), passed = excluded.passed, explanation = excluded.explanation;

-- indexed_by_batch: true if an index begins with _batch_id.
SELECT EXISTS (SELECT FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                WHERE i.indrelid = to_regclass(%(table)s) AND i.indisvalid AND a.attname = '_batch_id') AS indexed;

-- quoted_identifiers: true if sessions begin with quote_all_identifiers = on, and true if a pooler is in between, which
-- has sent a process id of its own.
SELECT reset_val = 'on' AS quoted, pg_backend_pid() <> %(pid)s AS pooled FROM pg_settings
 WHERE name = 'quote_all_identifiers';
