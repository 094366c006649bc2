-- The fields and columns that were classified when `last_error` was recorded, so that it quotes none of their values;
-- '*' is every one. Where the current contract classifies others too, or this is NULL, the error is not shown.
ALTER TABLE tidegate.pipeline ADD COLUMN last_error_hides text[];
