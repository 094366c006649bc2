"""A changed contract is compared, checked and applied; schemas are registered and imported."""
