-- known_schemas: the schemas among these that the ledger has.
SELECT key, format, document, "references", encrypted FROM tidegate.schema
 WHERE registry = %(registry)s AND generation = %(generation)s AND key = ANY(%(keys)s);

-- keep_schema: the meaning of an id from now on. The first writer decides.
INSERT INTO tidegate.schema (registry, generation, key, format, document, "references", encrypted, sha256)
VALUES (%(registry)s, %(generation)s, %(key)s, %(format)s, %(document)s, %(references)s, %(encrypted)s, %(sha256)s)
    ON CONFLICT DO NOTHING;

-- generations: the generations of the schemas that a pipeline's messages name, and their starts.
SELECT generation, topic_id, from_offsets FROM tidegate.schema_generation
 WHERE pipeline = %(pipeline)s AND registry = %(registry)s ORDER BY generation;

-- first_generation: gives a pipeline without a generation the registry's current one.
INSERT INTO tidegate.schema_generation (pipeline, registry, generation, from_offsets)
SELECT %(pipeline)s, %(registry)s,
       coalesce((SELECT max(generation) FROM tidegate.schema_generation WHERE registry = %(registry)s), 1), '{}'
 WHERE NOT EXISTS (SELECT FROM tidegate.schema_generation WHERE pipeline = %(pipeline)s AND registry = %(registry)s)
    ON CONFLICT DO NOTHING;

-- open_generation: from the positions on, ids belong to a rebuilt registry: to the newest generation, if another
-- pipeline has opened one that this one has not.
INSERT INTO tidegate.schema_generation (pipeline, registry, generation, topic_id, from_offsets)
SELECT %(pipeline)s, %(registry)s, greatest(o.own + 1, o.newest), p.topic_id, p.from_offsets
  FROM (SELECT max(topic_id) AS topic_id, coalesce(jsonb_object_agg(partition, next_offset), '{}') AS from_offsets
          FROM tidegate.source_position WHERE pipeline = %(pipeline)s) AS p,
       (SELECT coalesce(max(generation) FILTER (WHERE pipeline = %(pipeline)s), 1) AS own,
               coalesce(max(generation), 1) AS newest
          FROM tidegate.schema_generation WHERE registry = %(registry)s) AS o;

-- schemas_in_use: the schemas that the pipeline's newest batches named, with their meaning; then others kept from the
-- registry.
WITH newest AS (SELECT batch_id FROM tidegate.batch WHERE pipeline = %(pipeline)s ORDER BY batch_id DESC LIMIT 100),
     used AS (SELECT key, max(batch_id) AS latest FROM tidegate.batch_schema JOIN newest USING (batch_id)
               WHERE registry = %(registry)s AND generation = %(generation)s GROUP BY key)
SELECT s.key, s.sha256 FROM tidegate.schema AS s LEFT JOIN used USING (key)
 WHERE s.registry = %(registry)s AND s.generation = %(generation)s
 ORDER BY used.latest DESC NULLS LAST, s.first_seen_at DESC, key LIMIT %(most)s;

-- schema_digests: the digests of these schemas.
SELECT key, sha256 FROM tidegate.schema
 WHERE registry = %(registry)s AND generation = %(generation)s AND key = ANY(%(keys)s);

-- schemas_named_in: the schemas that published batches of the pipeline named in these ranges of a log, as it was then.
SELECT DISTINCT s.registry, s.generation, s.key
  FROM unnest(%(partitions)s::int[], %(from_offsets)s::bigint[], %(until_offsets)s::bigint[]) AS w (partition, low, high)
  JOIN tidegate.batch_range AS r ON r.partition = w.partition AND r.from_offset < w.high AND r.until_offset > w.low
  JOIN tidegate.batch AS b ON b.batch_id = r.batch_id
  JOIN tidegate.batch_schema AS s ON (s.batch_id, s.partition, s.from_offset) = (r.batch_id, r.partition, r.from_offset)
 WHERE b.pipeline = %(pipeline)s AND b.replaced_by IS NULL AND r.topic_id = %(topic_id)s;

-- write_batch_schemas: how many messages of each range name each schema, and with which part.
WITH named AS (
  INSERT INTO tidegate.batch_schema (batch_id, partition, from_offset, registry, generation, key, part, messages)
  SELECT %(batch_id)s, n.partition, n.from_offset, %(registry)s, n.generation, n.key, n.part, n.messages
    FROM unnest(%(partitions)s::int[], %(from_offsets)s::bigint[], %(generations)s::int[], %(keys)s::text[],
                %(parts)s::text[], %(messages)s::bigint[]) AS n (partition, from_offset, generation, key, part, messages)
  RETURNING generation, key, part)
INSERT INTO tidegate.schema_use AS u (pipeline, registry, generation, key, part, first_batch, last_batch)
SELECT DISTINCT %(pipeline)s, %(registry)s, generation, key, part, %(batch_id)s::bigint, %(batch_id)s::bigint FROM named
    ON CONFLICT (pipeline, registry, generation, key, part) DO UPDATE
    SET first_batch = least(u.first_batch, excluded.first_batch), last_batch = greatest(u.last_batch, excluded.last_batch);

-- first_named_in: the schemas among these that no message of the pipeline named before this batch, by part.
SELECT generation, key, part FROM tidegate.schema_use
 WHERE pipeline = %(pipeline)s AND registry = %(registry)s AND key = ANY(%(keys)s) AND first_batch >= %(batch_id)s;

-- schemas_used: the schemas that the messages of these pipelines name, and whether any did in the last seven days.
SELECT u.pipeline, u.registry, u.generation, u.key, u.part,
       coalesce(b.committed_at > now() - interval '7 days', false) AS of_late
  FROM tidegate.schema_use AS u LEFT JOIN tidegate.batch AS b ON b.batch_id = u.last_batch
 WHERE u.pipeline = ANY(%(pipelines)s) ORDER BY u.pipeline, u.registry, u.generation, u.key, u.part;

-- take_schema_use_over: the schemas that a replay's messages name become those of its pipeline.
WITH used AS (DELETE FROM tidegate.schema_use WHERE pipeline = %(beside)s RETURNING *)
INSERT INTO tidegate.schema_use (pipeline, registry, generation, key, part, first_batch, last_batch)
SELECT %(pipeline)s, registry, generation, key, part, first_batch, last_batch FROM used
    ON CONFLICT (pipeline, registry, generation, key, part) DO UPDATE SET last_batch = excluded.last_batch;

-- schemas_of_batch: how many messages of a batch name each schema, by part.
SELECT registry, generation, key, part, sum(messages)::bigint AS messages
  FROM tidegate.batch_schema WHERE batch_id = %(batch_id)s
 GROUP BY registry, generation, key, part ORDER BY generation, key, part;
