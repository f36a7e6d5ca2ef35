package journal

import (
	"errors"
	"time"
)

// Errors of the chats.
var (
	ErrNotFound = errors.New("not found")
)

// Journal is open until Close.
type Journal struct{}

// Live is an entry of a request that goes on.
type Live struct{}

// Open opens the journal at path and makes it when there is none.
func Open(path string) (*Journal, error) { return &Journal{}, nil }

// Close ends open entries' storing, writes what is left and closes the file.
func (j *Journal) Close() error { return nil }

// Problem is a sentence for people about why records are not stored; empty when they are.
func (j *Journal) Problem() string { return "" }

// Begin adds an entry; it is active until End.
func (j *Journal) Begin(e Entry) *Live { return &Live{} }

// Update changes the entry and tells subscribers.
func (l *Live) Update(change func(*Entry)) {}

// End changes the entry a last time and stores it. The second End does nothing.
func (l *Live) End(change func(*Entry)) {}

// Entry is a copy of the entry as it is now.
func (l *Live) Entry() Entry { return Entry{} }

// Active lists the entries that have not ended, oldest first.
func (j *Journal) Active() []Entry { return nil }

// Subscribe returns each entry's changes, active entries first. See the package's rules on slow readers.
func (j *Journal) Subscribe() (<-chan Entry, func()) { return nil, func() {} }

// List returns ended and active entries, newest first, and whether there are more.
func (j *Journal) List(q Query) (entries []Entry, more bool, err error) { return nil, false, nil }

// Get returns one entry, active or ended; ErrNotFound.
func (j *Journal) Get(traceID string) (Entry, error) { return Entry{}, ErrNotFound }

// Totals sums up what ended since a moment; the zero time for all.
func (j *Journal) Totals(since time.Time) (Totals, error) { return Totals{}, nil }

// SaveChat stores a chat with its messages in place of what was there.
func (j *Journal) SaveChat(c Chat) error { return nil }

// ListChats lists the chats without messages, newest first.
func (j *Journal) ListChats() ([]Chat, error) { return nil, nil }

// GetChat returns a chat with its messages; ErrNotFound.
func (j *Journal) GetChat(id string) (Chat, error) { return Chat{}, ErrNotFound }

// DeleteChat removes a chat; removing what is not there is no error.
func (j *Journal) DeleteChat(id string) error { return nil }
