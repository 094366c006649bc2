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
