-- Under which contract, transform and Spark a sample of the transform's rows was compared last, as a digest
-- (platform_defs/engine/job/row_local.py). NULL before that: it is compared with the next batch.
ALTER TABLE tidegate.pipeline ADD COLUMN row_local text;
