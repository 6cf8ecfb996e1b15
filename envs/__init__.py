"""Games: episodes, executor, rewards, and the Gymnasium environments made of them."""
