package runtime

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWidelyWritable(t *testing.T) {
	for rights, who := range map[string]string{
		"D:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;BU)":        "",                    // as in Program Files
		"D:AI(A;ID;FA;;;SY)(A;ID;FA;;;S-1-5-21-1-2-3-1001)":                  "",                    // as in a user's own folder
		"D:AI(A;OICIID;FA;;;BA)(A;OICIID;0x1200a9;;;BU)(A;ID;0x1301bf;;;AU)": "authenticated users", // as in C:\Anything
		"D:(A;OICIIO;FA;;;AU)(A;;FA;;;BA)":                                   "",                    // only for what comes later
		"D:(A;OICI;FA;;;WD)":                                                 "everyone",
		"D:(A;;GW;;;IU)":                                                     "interactive users",
		"D:(A;;CCDCLCSW;;;BU)":                                               "users",
		"D:(A;;FR;;;WD)(A;;0x100000;;;WD)":                                   "",
		"D:(D;;FA;;;WD)":                                                     "",
		"O:BAG:BAD:(A;;0x40000;;;BU)":                                        "users", // may change the rights themselves
		"D:NO_ACCESS_CONTROL":                                                "everyone",
		"":                                                                   "everyone",
	} {
		assert.Equal(t, who, widelyWritable(rights), rights)
	}
}
