package allocator

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseRange(t *testing.T) {
	for _, tt := range []struct {
		name, in, want string
		masked         bool
	}{
		{name: "range", in: "10.44.0.5-10.44.0.9", want: "10.44.0.5-10.44.0.9"},
		{name: "spaces around the dash", in: "10.44.0.5 - 10.44.0.9", want: "10.44.0.5-10.44.0.9"},
		{name: "tabs and newline", in: "\t10.44.0.5\t-\t10.44.0.9\r\n", want: "10.44.0.5-10.44.0.9"},
		{name: "one address as range", in: "10.44.0.5-10.44.0.5", want: "10.44.0.5/32"},
		{name: "one address as CIDR", in: "10.44.0.5/32", want: "10.44.0.5/32"},
		{name: "leading space", in: " 10.44.0.0/24", want: "10.44.0.0/24"},
		{name: "host bits", in: "10.44.0.77/24", want: "10.44.0.0/24", masked: true},
		{name: "host bits of IPv6", in: "2001:DB8::5/64", want: "2001:db8::/64", masked: true},
		{name: "range that is a CIDR", in: "10.44.0.0-10.44.0.255", want: "10.44.0.0/24"},
		{name: "IPv6 range", in: "fd44::1-fd44::ffff:1", want: "fd44::1-fd44::ffff:1"},
		{name: "IPv6 in an odd spelling", in: "FD44:0:0::/120", want: "fd44::/120"},
		{name: "everything", in: "0.0.0.0/0", want: "0.0.0.0/0"},
		{name: "every IPv6", in: "::/0", want: "::/0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, masked, err := ParseRange(tt.in)
			require.NoError(t, err)
			assert.Equal(t, tt.want, r.String())
			assert.Equal(t, tt.masked, masked)
		})
	}
}

func TestParseRangeRejects(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"empty", "", "empty"},
		{"blank", " \t\n", "empty"},
		{"bare IPv4", "10.44.0.5", "use /32"},
		{"bare IPv6", "fd44::5", "use /128"},
		{"reversed", "10.44.0.9-10.44.0.2", "before the first"},
		{"prefix too long", "10.44.0.0/33", "prefix length"},
		{"octet too large", "10.0.0.300/24", "IPv4 field"},
		{"octet too large in a range", "192.0.2.1-192.0.2.300", "last address"},
		{"leading zero", "192.0.2.005/32", "leading zero"},
		{"leading zero in a range", "192.0.02.1-192.0.2.5", "leading zero"},
		{"mapped CIDR", "::ffff:10.0.0.0/120", "IPv4-mapped"},
		{"mapped range", "::ffff:10.44.0.1-::ffff:10.44.0.4", "IPv4-mapped"},
		{"mapped first", "::ffff:10.44.0.1-10.44.0.4", "IPv4-mapped"},
		{"mixed families", "10.44.0.1-fd44::1", "two families"},
		{"mixed families, other way", "fd44::1-10.44.0.1", "two families"},
		{"zone in a CIDR", "fe80::1%eth0/64", "zone"},
		{"zone in a range", "fe80::1%eth0-fe80::2%eth0", "zone"},
		{"no last", "10.0.0.1-", "last address"},
		{"no first", "-10.0.0.1", "first address"},
		{"CIDR as first", "10.0.0.0/24-10.0.0.9", "first address"},
		{"three ends", "10.0.0.1-10.0.0.2-10.0.0.3", "last address"},
		{"no address", "foo-10.0.0.9", "first address"},
		{"word", "public", "neither a CIDR nor"},
		{"space inside", "10.0.0.0 /24", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, masked, err := ParseRange(tt.in)
			var parse *ParseError
			require.ErrorAs(t, err, &parse)
			assert.Equal(t, tt.in, parse.Text)
			assert.Contains(t, err.Error(), tt.want)
			if text := strings.TrimSpace(tt.in); text != "" && !strings.ContainsAny(text, "\t\n") {
				assert.Contains(t, err.Error(), text)
			}
			assert.Zero(t, r)
			assert.False(t, masked)
		})
	}
}

// The text is named once, by the ParseError, and a reason is short whatever the text.
func TestParseReasonsAreShort(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("x", 5000), strings.Repeat("x", 5000) + "/24", "192.0.2.1-" + strings.Repeat("é", 5000),
		"192.0.2.1" + strings.Repeat("): ", 2000), "192.0.2.0/24/" + strings.Repeat("8", 5000),
	} {
		_, _, err := ParseRange(text)
		var parse *ParseError
		require.ErrorAs(t, err, &parse)
		assert.Less(t, len(parse.Reason), 400)
		assert.NotContains(t, parse.Reason, "netip.Parse")
	}
	_, _, err := ParseRange("192.0.2.300/24")
	assert.EqualError(t, err, `address range "192.0.2.300/24": IPv4 field has value >255`)
}

func TestRangeContains(t *testing.T) {
	r := mustRanges(t, "192.0.2.5-192.0.2.37")[0]
	for text, want := range map[string]bool{
		"192.0.2.4": false, "192.0.2.5": true, "192.0.2.37": true, "192.0.2.38": false,
		"2001:db8::1": false, "::ffff:192.0.2.6": false,
	} {
		assert.Equal(t, want, r.Contains(netip.MustParseAddr(text)), text)
	}
	assert.False(t, r.Contains(netip.Addr{}))
	assert.False(t, Range{}.Contains(netip.MustParseAddr("192.0.2.5")))
}

func FuzzParseRange(f *testing.F) {
	for _, text := range []string{
		"10.44.0.0/24", "10.44.0.77/24", "10.44.0.5 - 10.44.0.9", "10.44.0.9-10.44.0.2", "fd44::/64", "fd44::1-fd44::5",
		"10.44.0.5", "::ffff:10.0.0.0/120", "10.0.0.1-fc00::1", "fe80::1%eth0/64", "", "-", "/", "\t\n", "0.0.0.0/0", "::/0",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, masked, err := ParseRange(text)
		if err != nil {
			require.NotEmpty(t, err.Error())
			require.Zero(t, r)
			return
		}
		require.NoError(t, r.check())
		require.False(t, masked && !strings.Contains(text, "/"))
		again, masked, err := ParseRange(r.String())
		require.NoError(t, err)
		require.False(t, masked)
		require.Equal(t, r, again)
		require.Empty(t, ValidatePools([]Pool{{Name: "p", Ranges: []Range{r}}}))
		a := newTest(t, Pool{Name: "p", Ranges: []Range{r}})
		as := mustAssign(t, a, Request{Owner: "o", Families: []Family{FamilyOf(r.From)}})
		require.Equal(t, []netip.Addr{r.From}, as.Addrs)
		usage, _ := a.Usage("p")
		require.Equal(t, int64(1), usage.V4.Used+usage.V6.Used)
		require.GreaterOrEqual(t, usage.V4.Free+usage.V6.Free, int64(0))
	})
}
