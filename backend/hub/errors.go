package hub

import (
	"errors"
	"net/url"
)

func asHub(err error) (*hubError, bool) { return errors.AsType[*hubError](err) }

// plain is the *llm.Error within, for callers.
func plain(err error) error {
	if he, ok := asHub(err); ok {
		return he.err
	}
	return err
}

// sameHub compares two addresses by what requests would go to.
func sameHub(a, b string) bool {
	u, err1 := url.Parse(a)
	v, err2 := url.Parse(b)
	return err1 == nil && err2 == nil && sameOrigin(u, v)
}
