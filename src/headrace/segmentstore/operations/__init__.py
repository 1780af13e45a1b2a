"""Operations: the smallest logged units. One codec, one type per thing that can happen to a segment."""
