-- verify_positions: from where to where each partition was read, and of which topic.
SELECT partition, topic, topic_id, start_offset, next_offset
  FROM tidegate.source_position WHERE pipeline = %(pipeline)s ORDER BY partition;

-- verify_ranges: what the committed batches say they read, with the offsets that never came, and by which contract and
-- transform. Of pruned batches, which no log holds, only where they were.
SELECT r.partition, r.from_offset, r.until_offset, r.batch_id,
       ARRAY(SELECT ARRAY[lower(g), upper(g)] FROM unnest(r.gaps) AS g) AS gaps,
       b.contract_digest, b.transform_digest, false AS pruned
  FROM tidegate.batch_range AS r JOIN tidegate.batch AS b USING (batch_id)
 WHERE b.pipeline = %(pipeline)s AND b.replaced_by IS NULL
 UNION ALL
SELECT partition, from_offset, until_offset, last_batch,
       ARRAY(SELECT ARRAY[lower(g), upper(g)] FROM unnest(gaps) AS g), NULL, NULL, true
  FROM tidegate.pruned_range WHERE pipeline = %(pipeline)s
 ORDER BY partition, from_offset;

-- verify_settled: offsets of dead letters that were settled and are pruned.
SELECT d.partition, lower(g), upper(g)
  FROM tidegate.pruned_dead_letter AS d JOIN tidegate.source_position AS p USING (pipeline, topic_id, partition),
       unnest(d.offsets) AS g
 WHERE d.pipeline = %(pipeline)s ORDER BY 1, 2;

-- verify_skipped_records: how many messages of each committed range are of records that the contract skips.
SELECT r.partition, r.from_offset, r.until_offset, r.batch_id, r.messages, r.skipped_records
  FROM tidegate.batch_range AS r JOIN tidegate.batch AS b USING (batch_id)
 WHERE b.pipeline = %(pipeline)s AND b.replaced_by IS NULL ORDER BY r.partition, r.from_offset;

-- verify_skips: offsets that a person gave up.
SELECT s.partition, s.from_offset, s.until_offset
  FROM tidegate.declared_skip AS s JOIN tidegate.source_position AS p USING (pipeline, topic_id, partition)
 WHERE s.pipeline = %(pipeline)s AND p.topic = %(topic)s ORDER BY s.partition, s.from_offset;

-- verify_lost_history: offsets of batches whose messages no log holds any more.
SELECT partition, from_offset, until_offset, until_batch
  FROM tidegate.lost_history WHERE pipeline = %(pipeline)s ORDER BY partition, from_offset;

-- verify_named_schemas: which schemas messages of each range name, of those that were known when it was read.
SELECT s.partition, s.from_offset, r.until_offset, s.registry, s.generation, s.key
  FROM tidegate.batch_schema AS s
  JOIN tidegate.batch_range AS r USING (batch_id, partition, from_offset)
  JOIN tidegate.batch AS b USING (batch_id)
  JOIN tidegate.source_position AS p ON (p.pipeline, p.partition, p.topic_id) = (b.pipeline, s.partition, r.topic_id)
 WHERE b.pipeline = %(pipeline)s AND b.replaced_by IS NULL ORDER BY s.partition, s.from_offset;

-- verify_schemas: these schemas.
SELECT registry, generation, key, format, document, "references", encrypted FROM tidegate.schema
 WHERE (registry, generation, key) IN (
         SELECT registry, generation, key FROM tidegate.batch_schema JOIN tidegate.batch USING (batch_id)
          WHERE pipeline = %(pipeline)s);
