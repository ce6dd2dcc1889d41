#!/bin/bash
# What tools/build/deb_test.sh has a booted Debian do: the steps of a newcomer (docs/quickstart.md), then those of an administrator.
set -euo pipefail
trap 'echo "newcomer: line $LINENO failed: $BASH_COMMAND"; systemctl status --no-pager prefillonly || true; journalctl --no-pager -n 60 -u prefillonly || true' ERR
export DEBIAN_FRONTEND=noninteractive
step() { echo "newcomer: $*"; }
main_pid() { systemctl show -p MainPID --value prefillonly; }
ask() { # ask PORT: the first token of an answer
    curl -sS --fail-with-body --max-time 60 "localhost:$1/v1/completions" -H 'Content-Type: application/json' "${@:2}" \
        -d '{"prompt": "Is the sky blue? Answer Yes or No:", "max_tokens": 1, "logprobs": 2}' | grep -q '"logprobs"'
}
ip link set lo up 2>/dev/null || true
snapshot() { { find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /share -o -path /tmp -o -path /var/log -o -path /var/cache/apt \
    -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/lib/systemd -o -path /var/cache/debconf -o -path /var/cache/ldconfig \) -prune -o -print; getent passwd; getent group; } | sort; }

before=$(snapshot)

step "apt install ./prefillonly_*.deb"
cd /share
apt-get install -y -qq ./prefillonly_*.deb >/dev/null
[ "$(systemctl is-active prefillonly)" = inactive ] && [ "$(systemctl is-enabled prefillonly)" = disabled ]
[ "$(stat -c %a:%U /etc/default/prefillonly)" = 640:root ]
systemd-analyze verify --man=no /usr/lib/systemd/system/prefillonly.service
step "security: $(systemd-analyze security --no-pager prefillonly | tail -n 1)"
[ -s /usr/share/bash-completion/completions/prefillonly ] && [ -s /usr/share/doc/prefillonly/copyright ]

step "systemctl start prefillonly; curl"
systemctl start prefillonly
ask 8000
pid=$(main_pid)
[ "$(ps -o user= -p "$pid" 2>/dev/null || stat -c %U "/proc/$pid")" = prefillonly ]

step "a key in /etc/default/prefillonly, another port in prefillonly.yaml, enabled"
sed -i 's/^port: 8000/port: 8001/' /etc/prefillonly/prefillonly.yaml
echo 'PREFILLONLY_API_KEY=sk-test' >>/etc/default/prefillonly
systemctl enable --quiet prefillonly
systemctl restart prefillonly
ask 8001 -H 'Authorization: Bearer sk-test'
[ "$(curl -s -o /dev/null -w '%{http_code}' localhost:8001/v1/models)" = 401 ]
! tr '\0' '\n' <"/proc/$(main_pid)/cmdline" | grep sk-test
systemctl reload prefillonly
ask 8001 -H 'Authorization: Bearer sk-test'

step "killed: systemd starts it again"
pid=$(main_pid)
kill -9 "$pid"
for _ in $(seq 600); do
    if [ "$(main_pid)" != "$pid" ] && [ "$(systemctl is-active prefillonly)" = active ]; then break; fi
    sleep 0.1
done
ask 8001 -H 'Authorization: Bearer sk-test'

step "upgrade: the configuration stays, the service is restarted"
pid=$(main_pid)
apt-get install -y -qq ./upgrade.deb >/dev/null
prefillonly version | grep -q +upgrade
[ "$(main_pid)" != "$pid" ]
grep -q '^port: 8001' /etc/prefillonly/prefillonly.yaml
grep -q sk-test /etc/default/prefillonly
ask 8001 -H 'Authorization: Bearer sk-test'
systemctl is-enabled --quiet prefillonly

step "remove: stopped, the configuration stays"
apt-get remove -y -qq prefillonly >/dev/null
[ "$(systemctl is-active prefillonly)" != active ] && ! [ -e "/proc/$pid/exe" ]
[ -z "$(find /proc -maxdepth 2 -name exe -lname '*/prefillonly*' 2>/dev/null)" ]
grep -q '^port: 8001' /etc/prefillonly/prefillonly.yaml
[ -d /var/lib/prefillonly ]

step "purge: nothing is left"
apt-get purge -y -qq prefillonly >/dev/null
apt-get autoremove -y -qq --purge >/dev/null
left=$(comm -13 <(echo "$before") <(snapshot))
[ -z "$left" ] || { echo "$left"; false; }
[ -z "$(find / -xdev -name '*prefillonly*' -not -path '/share/*' -not -path '/proc/*' -not -path '/var/log/*' 2>/dev/null)" ] || { find / -xdev -name '*prefillonly*' -not -path '/share/*' -not -path '/proc/*'; false; }
echo 'newcomer: done'
