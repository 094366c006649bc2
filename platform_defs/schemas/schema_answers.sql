-- named_schemas: the schemas that the values of the pipeline's messages named, the last one named first; replayed
-- batches count once.
SELECT s.generation, s.key, s.format, s.document, s."references", s.encrypted, s.first_seen_at,
       sum(n.messages)::bigint, min(n.first_batch), max(n.last_batch)
  FROM (SELECT n.registry, n.generation, n.key, n.messages, batch_id AS first_batch, batch_id AS last_batch
          FROM tidegate.batch_schema AS n JOIN tidegate.batch AS b USING (batch_id)
         WHERE b.pipeline = %(pipeline)s AND b.replaced_by IS NULL AND n.part = 'value'
         UNION ALL
        SELECT registry, generation, key, messages, first_batch, last_batch
          FROM tidegate.pruned_schema WHERE pipeline = %(pipeline)s AND part = 'value') AS n
  JOIN tidegate.schema AS s USING (registry, generation, key)
 WHERE n.registry = %(registry)s
 GROUP BY s.registry, s.generation, s.key
 ORDER BY max(n.last_batch) DESC, s.generation DESC, s.key;

-- batches_naming: by batch, how many messages named a schema with their value or their key, the newest first.
SELECT batch_id, b.committed_at, n.part, sum(n.messages)::bigint
  FROM tidegate.batch_schema AS n JOIN tidegate.batch AS b USING (batch_id)
 WHERE b.pipeline = %(pipeline)s AND b.replaced_by IS NULL AND n.registry = %(registry)s
   AND n.generation = %(generation)s AND n.key = %(key)s
 GROUP BY batch_id, b.committed_at, n.part ORDER BY batch_id DESC, n.part DESC LIMIT %(most)s;

-- newest_generation: the registry's generation for the pipeline's newest messages; else the newest of any, or 1.
SELECT coalesce(max(generation) FILTER (WHERE pipeline = %(pipeline)s), max(generation), 1)
  FROM tidegate.schema_generation WHERE registry = %(registry)s;
