//! Reinforcement-learning fine-tuning of small language models: library and the rapid binary.
