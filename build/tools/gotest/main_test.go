package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadCountsTestsAndShowsOnlyWhatFailed(t *testing.T) {
	var out bytes.Buffer
	total, err := read(strings.NewReader(`{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB/case","Output":"loud\n"}
{"Action":"fail","Package":"p","Test":"TestB/case"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestC","Output":"why\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
{"Action":"skip","Package":"empty"}
not json
`), &out)
	require.NoError(t, err)
	assert.Equal(t, "1 passed, 2 failed, 1 skipped", total.String())
	assert.Equal(t, "loud\nwhy\nFAIL\tp\t0.1s\nnot json\n", out.String())
}

func TestSumAddsSeveralRuns(t *testing.T) {
	file := t.TempDir() + "/counts"
	require.NoError(t, add(file, counts{passed: 3, failed: 1}))
	require.NoError(t, add(file, counts{passed: 4, skipped: 2}))
	var out bytes.Buffer
	require.NoError(t, sum(file, &out))
	assert.Equal(t, "7 passed, 1 failed, 2 skipped\n", out.String())
}
