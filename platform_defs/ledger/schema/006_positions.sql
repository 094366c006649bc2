-- A pipeline reads one topic, and its positions say which: one row a partition, whatever the topic is called. Where a
-- contract named another topic later on, older versions read that from its start and left the old positions behind.
-- They are recorded as settlements: what was read of the old topic is lost history, and what was left of it unread was
-- never read.
CREATE TEMPORARY TABLE left_behind ON COMMIT DROP AS
SELECT p.*, coalesce((SELECT max(r.batch_id) FROM tidegate.batch_range AS r JOIN tidegate.batch AS b USING (batch_id)
                       WHERE b.pipeline = p.pipeline AND r.topic = p.topic), 0) AS until_batch
  FROM tidegate.source_position AS p
  JOIN (SELECT DISTINCT ON (pipeline) pipeline, topic FROM tidegate.source_position
         ORDER BY pipeline, batch_id DESC NULLS LAST, updated_at DESC) AS read_last USING (pipeline)
 WHERE p.topic <> read_last.topic;

WITH recorded AS (
    INSERT INTO tidegate.settlement (pipeline, halt_code, halt_detail, actions, epoch, reason, settled_by)
    SELECT l.pipeline, 'topic_changed', jsonb_build_object('was', l.topic),
           jsonb_build_object('forgotten', jsonb_agg(to_jsonb(l) - 'pipeline' ORDER BY l.partition)), min(b.epoch),
           'the contract had named another topic since', 'tidegate migrate'
      FROM left_behind AS l JOIN tidegate.pipeline AS b ON b.name = l.pipeline GROUP BY l.pipeline, l.topic
    RETURNING settlement_id, pipeline, halt_detail ->> 'was' AS topic)
INSERT INTO tidegate.lost_history (settlement_id, pipeline, partition, from_offset, until_offset, until_batch)
SELECT r.settlement_id, l.pipeline, l.partition, 0, l.next_offset, l.until_batch
  FROM left_behind AS l JOIN recorded AS r USING (pipeline, topic) WHERE l.next_offset > 0;

DELETE FROM tidegate.source_position AS p USING left_behind AS l
 WHERE (p.pipeline, p.topic, p.partition) = (l.pipeline, l.topic, l.partition);

ALTER TABLE tidegate.source_position DROP CONSTRAINT source_position_pkey, ADD PRIMARY KEY (pipeline, partition);
