package journal

// Exec runs a statement on the writer's connection: the way to make SQLite refuse writes.
func (j *Journal) Exec(statement string) error {
	_, err := j.reader().db.Exec(statement)
	return err
}

// Tidy runs one pass of the retention.
func (j *Journal) Tidy() { j.tidy() }
