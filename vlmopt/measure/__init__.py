"""Where the time goes, and how a fork compares with stock: stages, profiles, benchmarks."""
