"""Operations on programs that need NumPy alone: running, differentiating, calling and inlining them."""
