"""How fast the engine is, against the ways people run ablations today and against what the machine allows."""
