"""What a fork carries beside vLLM's own code. Importing this package alone imports nothing else."""
