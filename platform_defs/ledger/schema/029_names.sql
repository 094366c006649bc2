-- Both locks at once, before anything else: see 010.
LOCK TABLE tidegate.pipeline, tidegate.batch IN ACCESS EXCLUSIVE MODE;

-- Names as the documentation has them. Dead letters of older versions keep the class SetAside: to find them would read
-- all dead letters while no run can work.
ALTER TABLE tidegate.batch RENAME COLUMN told_at TO reported_at;
ALTER INDEX IF EXISTS tidegate.batch_untold RENAME TO batch_unreported;
ALTER TABLE tidegate.pipeline RENAME COLUMN red_gate TO failed_checks;
UPDATE tidegate.pipeline SET halt_code = 'blocking_check_failed' WHERE halt_code = 'gate_red';
UPDATE tidegate.settlement SET halt_code = 'blocking_check_failed' WHERE halt_code = 'gate_red';
