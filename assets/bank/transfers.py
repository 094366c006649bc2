"""A transfer becomes two postings: one takes the amount from the debit account, one gives it to the credit account."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(transfers: DataFrame) -> DataFrame:
    """Two rows for each transfer: transfer_id, account, amount (signed), currency, occurred_at, _partition, _offset.

    Row-local, as every transform must be: a row of the result depends on one message and nothing else.
    """
    debit = F.struct(F.col("debit_account").alias("account"), F.negative("amount").alias("amount"))
    credit = F.struct(F.col("credit_account").alias("account"), F.col("amount"))
    return transfers.select(
        "transfer_id",
        F.inline(F.array(debit, credit)),
        "currency",
        "occurred_at",
        "_partition",
        "_offset",
    )
