"""The schema's keys, one small file for each subject."""
