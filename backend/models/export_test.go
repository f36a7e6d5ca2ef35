package models

// SetSpace says what is free where.
func (l *Library) SetSpace(space func(dir string) (free, total int64, err error)) { l.space = space }
