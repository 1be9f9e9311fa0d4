"""One file a kind of DeepSpeed optimizer: where its fp32 master weights and states lie."""
