"""GPT-NeoX YAML, pipeline files and cluster files, read into typed, validated, fully derived records."""
