"""Models: frozen bases, the adapters that make agents of them, and the engines that sample from agents."""
