"""What people see: tables, plots and pages, made from the result files and nothing else."""
