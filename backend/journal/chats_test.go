package journal_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/journal"
	"signalbox/backend/llm"
)

func TestChatIsSavedWhole(t *testing.T) {
	path := newPath(t)
	j := open(t, path)
	want := journal.Chat{
		ID: "0f3a", Title: "Norway", Model: "smollm2:135m", CreatedAt: noon, UpdatedAt: noon.Add(time.Minute),
		Messages: []journal.Message{
			{Role: "user", Content: "capital of Norway? 🌍"},
			{Role: "assistant", Content: "Oslo", Thinking: "hm", Record: &llm.Record{TraceID: "t", ExecutionDevice: "NPU"}, Stopped: true},
			{Role: "assistant", Error: "the engine ended"},
		},
	}
	require.NoError(t, j.SaveChat(want))
	require.NoError(t, j.Close())
	j = open(t, path)
	got, err := j.GetChat("0f3a")
	require.NoError(t, err)
	assert.Equal(t, want, got)

	want.Title, want.Messages = "Oslo", want.Messages[:1]
	want.UpdatedAt = noon.Add(time.Hour)
	require.NoError(t, j.SaveChat(want))
	got, err = j.GetChat("0f3a")
	require.NoError(t, err)
	assert.Equal(t, want, got, "what was there is replaced")

	want.CreatedAt = time.Time{}
	require.NoError(t, j.SaveChat(want))
	got, err = j.GetChat("0f3a")
	require.NoError(t, err)
	assert.Equal(t, noon, got.CreatedAt, "creation stays")
}

func TestChatsAreListedNewestFirstWithoutMessages(t *testing.T) {
	j := open(t, newPath(t))
	for i, id := range []string{"a", "b", "c"} {
		require.NoError(t, j.SaveChat(journal.Chat{
			ID: id, Title: "chat " + id, UpdatedAt: noon.Add(time.Duration(i) * time.Minute), Messages: []journal.Message{{Role: "user", Content: "100% " + id}},
		}))
	}
	names := func(chats []journal.Chat, err error) string {
		require.NoError(t, err)
		var all []string
		for _, c := range chats {
			assert.Empty(t, c.Messages)
			all = append(all, c.ID)
		}
		return strings.Join(all, " ")
	}
	assert.Equal(t, "c b a", names(j.ListChats()))
	assert.Equal(t, "c b a", names(j.SearchChats("100%")))
	assert.Equal(t, "b", names(j.SearchChats("% B")))
	assert.Equal(t, "a", names(j.SearchChats("CHAT A")))
	assert.Empty(t, names(j.SearchChats("1_0")))
	assert.Empty(t, names(j.SearchChats("' OR 1")))
}

func TestDeletedChatLeavesNothingInTheFiles(t *testing.T) {
	path := newPath(t)
	j := open(t, path)
	require.NoError(t, j.SaveChat(journal.Chat{ID: "a", Messages: []journal.Message{{Content: strings.Repeat("ANANAS-7734 ", 2000)}}}))
	require.NoError(t, j.SaveChat(journal.Chat{ID: "b", Title: "stays"}))
	require.NoError(t, j.DeleteChat("a"))
	require.NoError(t, j.DeleteChat("a"))
	_, err := j.GetChat("a")
	assert.ErrorIs(t, err, journal.ErrNotFound)
	_, err = j.GetChat("b")
	assert.NoError(t, err)
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(path + suffix)
		require.NoError(t, err)
		assert.False(t, bytes.Contains(content, []byte("ANANAS")), "found in journal.db%s", suffix)
	}
}

func TestChatIDsAreChecked(t *testing.T) {
	j := open(t, newPath(t))
	for _, id := range []string{"", "../x", "a b", "a\x00", strings.Repeat("x", 65), "ä"} {
		assert.Equal(t, llm.CodeInvalid, llm.CodeOf(j.SaveChat(journal.Chat{ID: id})), "%q", id)
	}
}
