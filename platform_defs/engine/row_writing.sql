-- upsert_in_order: the body of a DO block that writes every message of a batch, one after the other. It leaves how many
-- rows were due, written and deleted in settings of the transaction, since a DO block returns nothing. With
-- `defer` and `check`, what can be deferred is checked at the end of each message. A column may have the name of
-- PL/pgSQL's own variable: found.
#variable_conflict use_column
DECLARE
  _row record;
  _count bigint;
  _due bigint := 0;
  _written bigint := 0;
  _gone bigint := 0;
BEGIN
  FOR _row IN SELECT {columns}, _deleted FROM {staging} WHERE {winners} AND {where} ORDER BY _partition, _offset LOOP
    {defer}
    IF _row._deleted THEN
      DELETE FROM {table} AS t WHERE t._key = _row._key;
      GET DIAGNOSTICS _count = ROW_COUNT;
      _gone := _gone + _count;
    ELSE
      INSERT INTO {table} ({columns}, _batch_id) VALUES ({values}, {batch_id})
          ON CONFLICT (_key) DO UPDATE SET {changes};
      GET DIAGNOSTICS _count = ROW_COUNT;
      _due := _due + 1;
      _written := _written + _count;
    END IF;
    {check}
  END LOOP;
  PERFORM set_config('tidegate.due', _due::text, true), set_config('tidegate.written', _written::text, true),
          set_config('tidegate.deleted', _gone::text, true);
END

-- written_in_order: the counts that upsert_in_order left, after the number of staged rows.
SELECT (SELECT count(*) FROM {staging} WHERE {winners} AND {where}), current_setting('tidegate.due')::bigint,
       current_setting('tidegate.written')::bigint, current_setting('tidegate.deleted')::bigint;

-- upsert: the newest message of each key. Rows are deleted after the others are written: Postgres checks foreign keys
-- in this order, and ON DELETE CASCADE would take a new row unchecked.
WITH latest AS MATERIALIZED (SELECT DISTINCT ON (_key) {columns}, _deleted FROM {staging}
                              WHERE {winners} AND {where} ORDER BY _key, _offset DESC),
     written AS (INSERT INTO {table} ({columns}, _batch_id) SELECT {values}, {batch_id} FROM latest
                  WHERE NOT _deleted ORDER BY _key ON CONFLICT (_key) DO UPDATE SET {changes} RETURNING 1),
     gone AS (DELETE FROM {table} AS t USING latest WHERE t._key = latest._key AND latest._deleted
                 AND (SELECT count(*) FROM written) >= 0 RETURNING 1)
SELECT (SELECT count(*) FROM {staging} WHERE {winners} AND {where}),
       (SELECT count(*) FROM latest WHERE NOT _deleted), (SELECT count(*) FROM written), (SELECT count(*) FROM gone);

-- accumulate: the aggregates of the winners' rows, merged into their table in the order of its key.
WITH made AS MATERIALIZED (SELECT {values} FROM {staging} WHERE {winners} GROUP BY {keys}),
     written AS (INSERT INTO {table} AS t ({columns}) SELECT {columns} FROM made ORDER BY {keys}
                  ON CONFLICT ({keys}) DO UPDATE SET {merged} RETURNING 1)
SELECT 0, (SELECT count(*) FROM made), (SELECT count(*) FROM written);

-- add_older: to the rows in order, the next older message of each key whose messages so far were all rejected (places).
INSERT INTO {rows}
SELECT DISTINCT ON (_key) *, {round} FROM {staged}
 WHERE {winners} AND (_partition, _offset) NOT IN (SELECT _partition, _offset FROM {rows})
   AND _key IN (SELECT _key FROM {rows} WHERE (_partition, _offset) IN ({places})
                EXCEPT SELECT _key FROM {rows} WHERE (_partition, _offset) NOT IN ({places}))
 ORDER BY _key, _offset DESC;
