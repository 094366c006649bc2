-- How a table is filled, as Table.definition has it: what was filled in another way holds something else. NULL until the
-- next run claims the table.
ALTER TABLE tidegate.output ADD COLUMN definition text;
-- The last batch that wrote to it: a table that the contract left out for a while lacks rows.
ALTER TABLE tidegate.output ADD COLUMN batch_id bigint;
-- The lineage event of a pipeline's newest batch names the tables that this batch wrote to.
UPDATE tidegate.output AS o SET batch_id = e.batch_id
  FROM (SELECT pipeline, max(batch_id) AS batch_id FROM tidegate.batch GROUP BY pipeline) AS b
  JOIN tidegate.lineage_event AS e USING (batch_id)
 WHERE b.pipeline = o.pipeline
   AND (right(o.pipeline, 7) = '~replay'
        OR e.event->'outputs' @> jsonb_build_array(jsonb_build_object('name', o.table_name))
        OR e.event->'outputs' @> jsonb_build_array(jsonb_build_object('name',
             (SELECT n.nspname || '.' || c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
               WHERE c.oid = o.table_oid))));

-- A restored dump gives tables other OIDs: they are a property of an output, and no longer what identifies it. NULL where
-- another pipeline's table has got this OID.
ALTER TABLE tidegate.output DROP CONSTRAINT output_pkey;
ALTER TABLE tidegate.output ALTER COLUMN table_oid DROP NOT NULL;
ALTER TABLE tidegate.output ADD UNIQUE (table_oid), ADD PRIMARY KEY (pipeline, table_name);

-- Under a publication FOR ALL TABLES, UPDATE and DELETE fail on a table without a primary key.
ALTER TABLE tidegate.dead_letter
    DROP CONSTRAINT dead_letter_pipeline_topic_id_partition_offset_key,
    ADD PRIMARY KEY (pipeline, topic_id, partition, "offset");

-- Tables that a person bound to a pipeline again, after a restore or a move had given them other OIDs.
CREATE TABLE tidegate.adoption (
    adoption_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline    text NOT NULL REFERENCES tidegate.pipeline (name),
    actions     jsonb NOT NULL,              -- as `tidegate adopt` showed them: tables, sequences, what verify found
    reason      text NOT NULL,
    adopted_by  text NOT NULL,
    adopted_at  timestamptz NOT NULL DEFAULT now()
);
