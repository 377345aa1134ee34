"""What every other folder uses: types, registries, storage, models and endpoints."""
