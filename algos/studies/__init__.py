"""Studies: experiments of the papers, played with simulated experts, and what they show beside the papers' figures."""
