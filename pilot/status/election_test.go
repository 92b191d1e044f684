package status

import (
	"encoding/json"
	"testing"
	"time"
)

// TestClaim goes through what a contender may find in a lock.
func TestClaim(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	c := &candidate{identity: "me", key: "", lease: 30 * time.Second}
	for _, step := range []struct {
		what, text string
		after      time.Duration
		held       bool
	}{
		{"no record", "", 0, true},
		{"nonsense", "{", 0, true},
		{"mine", `{"holderIdentity":"me","leaseDurationSeconds":30}`, 0, true},
		{"released", `{"holderIdentity":"","leaseDurationSeconds":1}`, 0, true},
		// A record that was written long ago, or by a clock that is wrong, says nothing: the holder may be alive.
		{"another's, seen first", `{"holderIdentity":"you","leaseDurationSeconds":30,"renewTime":"2001-01-01T00:00:00Z"}`, 0, false},
		{"still within the lease", `{"holderIdentity":"you","leaseDurationSeconds":30,"renewTime":"2001-01-01T00:00:00Z"}`, 29 * time.Second, false},
		{"renewed", `{"holderIdentity":"you","leaseDurationSeconds":30,"renewTime":"2001-01-01T00:00:01Z"}`, time.Second, false},
		{"still within the next lease", `{"holderIdentity":"you","leaseDurationSeconds":30,"renewTime":"2001-01-01T00:00:01Z"}`, 29 * time.Second, false},
		{"silent for a lease", `{"holderIdentity":"you","leaseDurationSeconds":30,"renewTime":"2001-01-01T00:00:01Z","leaderTransitions":4}`, 0, false},
		{"silent for another", `{"holderIdentity":"you","leaseDurationSeconds":30,"renewTime":"2001-01-01T00:00:01Z","leaderTransitions":4}`, 30 * time.Second, true},
	} {
		now = now.Add(step.after)
		r, held := c.claim(step.text, now)
		if held != step.held {
			t.Errorf("%s: held %v", step.what, held)
		}
		if held && (r.Holder != "me" || r.Key != "default" || r.Lease != 30 || !r.Renewed.Time.Equal(now)) {
			t.Errorf("%s: %+v", step.what, r)
		}
		if step.what == "silent for another" && r.Transitions != 5 {
			t.Errorf("%d transitions", r.Transitions)
		}
	}
	text, err := json.Marshal(record{Holder: "me", Key: "default", Lease: 30})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"holderIdentity":"me","holderKey":"default","leaseDurationSeconds":30,"acquireTime":null,"renewTime":null,"leaderTransitions":0}`
	if string(text) != want {
		t.Errorf("%s", text)
	}
}
