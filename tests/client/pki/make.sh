#!/bin/sh
# Makes every certificate and key here anew, good for a hundred years but for those that are to be expired or not valid
# yet. None of them is of any use outside these tests.
set -eu
cd "$(dirname "$0")"
rm -f ./*.pem
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ec() { openssl genpkey -algorithm EC -pkeyopt "ec_paramgen_curve:$1"; }

# $1: name
request() { openssl req -new -key "$1.key.pem" -subj "/CN=$1"; }

# $1: name, $2: its issuer's name, $3: extensions; without any it is of X.509 version 1
sign() {
    request "$1" |
        openssl x509 -req -CA "$2.pem" -CAkey "$2.key.pem" -days 36500 -set_serial "0x$(openssl rand -hex 8)" \
            ${3:+-extfile /dev/fd/3} -out "$1.pem" 3<<EXT
${3:-}
EXT
}

# $1: name, $2: its issuer's name, $3: extensions, $4: not before, $5: not after
sign_for() {
    : >"$work/index"
    printf '%s\n' "[ca]" "default_ca=c" "[c]" "database=$work/index" "new_certs_dir=$work" "rand_serial=yes" \
        "default_md=sha256" "policy=p" "[p]" "commonName=supplied" >"$work/config"
    echo "$3" >"$work/extensions"
    request "$1" >"$work/request"
    openssl ca -batch -notext -config "$work/config" -cert "$2.pem" -keyfile "$2.key.pem" -extfile "$work/extensions" \
        -startdate "$4" -enddate "$5" -in "$work/request" -out "$1.pem"
}

for ca in ca other-ca; do
    ec P-256 >$ca.key.pem
    openssl req -x509 -new -key $ca.key.pem -subj "/CN=$ca" -days 36500 -out $ca.pem \
        -addext keyUsage=keyCertSign,cRLSign
done

# Servers: their names are those that the tests dial.
server="subjectAltName=DNS:localhost,DNS:api.example,IP:127.0.0.1,IP:::1
extendedKeyUsage=serverAuth
basicConstraints=CA:FALSE"
for name in server other-server expired-server future-server; do
    ec P-256 >$name.key.pem
done
sign server ca "$server"
sign other-server other-ca "$server"
sign_for expired-server ca "$server" 20200101000000Z 20210203040506Z
sign_for future-server ca "$server" 21000101000000Z 22000101000000Z

# Servers that vouch for themselves; the second says that it is an authority.
for name in self-signed self-signed-ca; do
    ec P-256 >$name.key.pem
done
openssl req -x509 -new -key self-signed.key.pem -subj "/CN=self-signed" -days 36500 -out self-signed.pem \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE
openssl req -x509 -new -key self-signed-ca.key.pem -subj "/CN=self-signed-ca" -days 36500 -out self-signed-ca.pem \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1

# A server of an authority in between, below the one whose key is kept here.
for name in server-between server-chain; do
    ec P-256 >$name.key.pem
done
sign server-between self-signed-ca "basicConstraints=critical,CA:TRUE
keyUsage=keyCertSign,cRLSign"
sign server-chain server-between "$server"
cat server-between.pem >>server-chain.pem
rm server-between.key.pem server-between.pem

# A server whose issuer must not be one, and an authority that has expired.
ec P-256 >of-server.key.pem
sign of-server server "$server"
ec P-256 >expired-ca.key.pem
openssl req -x509 -new -key expired-ca.key.pem -subj "/CN=expired-ca" -days 1 -out expired-ca.pem
sign_for expired-ca expired-ca "basicConstraints=critical,CA:TRUE
keyUsage=keyCertSign,cRLSign" 20200101000000Z 20210203040506Z
rm expired-ca.key.pem

# A server of an authority on P-521.
ec P-521 >p521-ca.key.pem
openssl req -x509 -new -key p521-ca.key.pem -subj "/CN=p521-ca" -days 36500 -out p521-ca.pem
ec P-256 >of-p521.key.pem
sign of-p521 p521-ca "$server"
rm p521-ca.key.pem

# Clients: one for each kind of key and each way to write it down.
client="extendedKeyUsage=clientAuth
basicConstraints=CA:FALSE"
openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 >rsa-pkcs8.key.pem
openssl rsa -in rsa-pkcs8.key.pem -traditional >rsa-pkcs1.key.pem
ec P-256 >ec-pkcs8.key.pem
openssl ec -in ec-pkcs8.key.pem >ec-sec1.key.pem
ec P-384 >p384-pkcs8.key.pem
openssl ecparam -name secp384r1 -genkey >p384-sec1.key.pem # with a block of parameters before the key
openssl genpkey -algorithm ED25519 >ed25519.key.pem
ec P-521 >p521.key.pem
for name in rsa-pkcs8 rsa-pkcs1 ec-pkcs8 ec-sec1 p384-pkcs8 p384-sec1 ed25519 p521; do
    sign $name ca "$client"
done

# Clients of other kinds: of the other authority, of version 1, expired, of an authority in between.
for name in other-client v1 expired between chain; do
    ec P-256 >$name.key.pem
done
sign other-client other-ca "$client"
sign v1 ca
sign_for expired ca "$client" 20200101000000Z 20210203040506Z
sign between ca "basicConstraints=critical,CA:TRUE
keyUsage=keyCertSign,cRLSign"
sign chain between "$client"
cat between.pem >>chain.pem
openssl pkey -in ec-pkcs8.key.pem -aes256 -passout pass:secret -out encrypted.key.pem

rm ca.key.pem other-ca.key.pem between.key.pem between.pem
