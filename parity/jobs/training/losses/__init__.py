"""The loss functions that training scripts call, and what differs between both sides' loss."""
