package backend

import (
	"fmt"
	"sync"
	"time"

	"signalbox/backend/models"
)

// shelf remembers how many models there are: the status is drawn at each change of anything, and listing reads the disk.
type shelf struct {
	list func() ([]models.Model, error)

	mu      sync.Mutex
	count   int
	problem string    // why they cannot be listed, a sentence; guarded by mu, as all below
	looked  time.Time // zero: never
	stale   bool      // models have changed since
}

// shelfFresh is how long an answer is used again while models change: a download reports often.
const shelfFresh = 2 * time.Second

// changed is called when models have come, gone or changed.
func (s *shelf) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale = true
}

// now is how many models there are, as far as that is known, and what is wrong with their folder.
func (s *shelf) now() (count int, problem string) {
	s.mu.Lock()
	due := s.looked.IsZero() || s.stale && time.Since(s.looked) >= shelfFresh
	s.mu.Unlock()
	if due {
		s.look()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count, s.problem
}

// look counts them and tells whether anything is different: models also come and go by hand.
func (s *shelf) look() bool {
	s.mu.Lock()
	s.stale, s.looked = false, time.Now() // what changes during the look is looked at again
	s.mu.Unlock()
	list, err := s.list()
	s.mu.Lock()
	defer s.mu.Unlock()
	count, problem := len(list), ""
	if err != nil { // they are still there, for all we know
		count, problem = s.count, fmt.Sprintf("The models cannot be listed: %v. Requests for them will fail; check the folder's permissions.", err)
	}
	different := count != s.count || problem != s.problem
	s.count, s.problem = count, problem
	return different
}
