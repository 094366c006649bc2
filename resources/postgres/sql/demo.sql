-- demo_totals: what `tidegate demo` reports of the pipeline bank_transfers: its batches, its tables, its dead letters.
SELECT coalesce((SELECT messages_total FROM tidegate.pipeline WHERE name = 'bank_transfers'), 0) AS messages,
       (SELECT count(*) FROM bank.postings) AS postings,
       (SELECT count(*) FROM tidegate.dead_letter WHERE pipeline = 'bank_transfers') AS dead_letters,
       (SELECT count(*) FROM bank.balances) AS accounts,
       (SELECT sum(balance) FROM bank.balances) AS balances_sum,
       (SELECT round(messages / (SELECT sum(value::numeric) FROM jsonb_each_text(timings)))::bigint FROM tidegate.batch
         WHERE pipeline = 'bank_transfers' ORDER BY batch_id DESC LIMIT 1) AS messages_per_second;

-- demo_reasons: the dead letters of bank_transfers by stage and error class, most first.
SELECT stage || ': ' || error_class, count(*) FROM tidegate.dead_letter
 WHERE pipeline = 'bank_transfers' GROUP BY 1 ORDER BY 2 DESC, 1;
