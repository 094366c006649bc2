-- Both locks at once, before anything else: see 010.
LOCK TABLE tidegate.pipeline, tidegate.contract_application IN ACCESS EXCLUSIVE MODE;

-- The contract's document as each application had it. Documents of one digest can differ in renames and classification,
-- and a rename happened only under the application whose document has it.
ALTER TABLE tidegate.contract_application ADD COLUMN document text;
UPDATE tidegate.contract_application AS a SET document = c.document
  FROM tidegate.contract AS c WHERE (c.pipeline, c.digest) = (a.pipeline, a.digest);
ALTER TABLE tidegate.contract_application ALTER COLUMN document SET NOT NULL;
