package models_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"signalbox/backend/models"
)

func TestNoSpaceDoesNotContradictItself(t *testing.T) {
	assert.EqualError(t, models.NoSpace(4<<20, 0),
		"there is not enough space: 4.2 MB are needed beside the 1.1 GB that always stay free, and 0 B are free: `signalbox df` shows what can go")
}
