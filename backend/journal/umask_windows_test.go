package journal_test

func umask(int) int { return 0 }
