"""A signature holds for one kind of content, an nkey is its party's own, and a hub is pinned."""

import ast
import asyncio
import base64
import contextlib
import itertools
import json
import pathlib
import ssl

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.federation.hubs import (
    Talker,
    Told,
    admitted_study,
    free_port,
    proposed,
    running,
    served,
)
from tests.federation.studies import key_of, write_records

import taciturn_federation
from taciturn.errors import InputError, PrivacyError
from taciturn_federation import (
    Invitation,
    JoinRequest,
    Link,
    Nkey,
    SignedProposal,
    admit,
    join,
    sign,
)
from taciturn_federation.agreement import _unsigned
from taciturn_federation.envelope import Kind, Opener, Signer
from taciturn_federation.keys import (
    Label,
    certify_nkey,
    check_certificate,
    check_nkey,
    client_context,
    is_signed,
    new_hub,
    nkey_bytes,
    nkey_text,
    public_text,
    sign_labelled,
    write_key,
)

# an example of the documentation of NATS: the 32 bytes of its seed, and its public half
SEED = "29497ba00f41dd45936b4cc4bda1decb67c128e69fb3d490ee820daf7c318c0a"
PUBLIC = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


@pytest.fixture
def study(tmp_path):
    return admitted_study(tmp_path)


def requested(study, folder, name="guys"):
    data = folder / f"{name}.csv"
    write_records(data, 20, seed=9)
    return join(folder / "sites" / study.name / name, study.invitation, name, data, None)


# Labels


def test_nothing_is_signed_but_by_the_function_that_takes_a_label():
    """The others: the answer to a challenge of the hub, and the hub's own certificate."""
    found = []
    for file in sorted(pathlib.Path(taciturn_federation.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                calls = [one.func for one in ast.walk(node) if isinstance(one, ast.Call)]
                names = [one.attr for one in calls if isinstance(one, ast.Attribute)]
                found += [(file.name, node.name)] * names.count("sign")
    assert sorted(found) == [
        ("keys.py", "answer"), ("keys.py", "new_hub"), ("keys.py", "sign_labelled"),
    ]  # fmt: skip


def test_no_label_begins_another_and_each_is_one_line():
    for one, other in itertools.permutations(Label, 2):
        assert not other.value.startswith(one.value)
    assert [label.value.count(b"\n") for label in Label] == [1] * len(Label)
    assert all(label.value.endswith(b"\n") for label in Label)


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(Label, 2)))
def test_a_signature_under_one_label_is_none_under_another(one, other):
    key, content = key_of(1), b"the same content"
    signature = sign_labelled(key, one, content)
    assert is_signed(key.public_key(), one, signature, content)
    assert is_signed(key.public_key(), one, signature.hex(), content)
    assert not is_signed(key.public_key(), other, signature, content)
    assert not is_signed(key.public_key(), one, signature, content + b"\n")


@pytest.mark.parametrize("signature", ["", "0", "zz", "00" * 63, "00" * 64, b"", bytes(64)])
def test_what_is_no_signature_is_refused(signature):
    assert not is_signed(key_of(1).public_key(), Label.REQUEST, signature, b"content")


@pytest.mark.parametrize("label", [label for label in Label if label is not Label.INVITATION])
def test_an_invitation_with_a_signature_of_another_kind_is_refused(study, label):
    made, _ = study
    replayed = sign_labelled(made.signing_key(), label, _unsigned(made.invitation)).hex()
    values = json.loads(made.invitation.to_json()) | {"signature": replayed}
    with pytest.raises(InputError, match="not signed by its own key"):
        Invitation.from_json(json.dumps(values))


@pytest.mark.parametrize("label", [label for label in Label if label is not Label.REQUEST])
def test_a_request_with_a_signature_of_another_kind_is_refused(study, tmp_path, label):
    made, _ = study
    site, request = requested(made, tmp_path)
    replayed = sign_labelled(site.signing_key(), label, _unsigned(request)).hex()
    values = json.loads(request.to_json()) | {"signature": replayed}
    with pytest.raises(InputError, match="not signed by its own key"):
        JoinRequest.from_json(json.dumps(values))


@pytest.mark.parametrize("label", [label for label in Label if label is not Label.PROPOSAL])
def test_a_proposal_with_a_signature_of_another_kind_is_refused(study, label):
    made, (mercy, _) = study
    signed = proposed(made)
    content = signed.model_copy(update={"signature": ""}).to_json().encode()
    replayed = sign_labelled(made.signing_key(), label, content).hex()
    with pytest.raises(PrivacyError, match="signature of the proposal is not right"):
        mercy.take_part(signed.model_copy(update={"signature": replayed}))


@pytest.mark.parametrize("label", [label for label in Label if label is not Label.ENVELOPE])
def test_an_envelope_with_a_signature_of_another_kind_is_refused(label):
    key, run = key_of(3), bytes(32)
    sealed = Signer(run, 0, key).seal(Kind.DONE, 0, b"")
    opener = Opener(run, {0: "mercy"}, {0: key.public_key()})
    assert opener.open(sealed).kind == Kind.DONE
    replayed = sealed[:-64] + sign_labelled(key, label, sealed[:-64])
    with pytest.raises(InputError, match="was not signed with the key of mercy"):
        opener.open(replayed)


@pytest.mark.parametrize("label", list(Label))
def test_a_challenge_that_reads_as_a_document_brings_a_hub_no_signature(study, label):
    """A hub chooses what an nkey signs; what comes back holds for the nkey alone."""
    _, (mercy, _) = study
    content = "anything that mercy might say"
    answer = mercy.nkey().answer(label.value.decode() + content)
    signature = base64.b64decode(answer)
    signing, nkey = mercy.signing_key().public_key(), mercy.nkey().key.public_key()
    assert is_signed(nkey, label, signature, content.encode())
    assert not is_signed(signing, label, signature, content.encode())


# Nkeys


def test_a_public_nkey_is_what_nats_writes():
    nkey = Nkey(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(SEED)))
    assert nkey.public == PUBLIC
    assert nkey_text(nkey_bytes(PUBLIC)) == PUBLIC
    assert nkey_bytes(PUBLIC) == nkey.key.public_key().public_bytes_raw()


@pytest.mark.parametrize(
    "text",
    ["", PUBLIC[:-1], PUBLIC + "A", PUBLIC.lower(), PUBLIC[:-1] + "A", "A" + PUBLIC[1:],
     PUBLIC[:20] + "7" + PUBLIC[21:], PUBLIC + "\n", '" } ]'.ljust(56, "A"), "SU" + PUBLIC[2:]],
)  # fmt: skip
def test_what_is_no_public_nkey_is_refused(text):
    with pytest.raises(InputError, match="is not what NATS writes"):
        nkey_bytes(text)


def test_a_party_never_connects_with_its_signing_key(study):
    made, sites = study
    for party in (made, *sites):
        assert party.nkey().key.private_bytes_raw() != party.signing_key().private_bytes_raw()
    signing = key_of(1)
    public = nkey_text(signing.public_key().public_bytes_raw())
    certified = certify_nkey(signing, "diabetes", "mercy", public)
    with pytest.raises(InputError, match="connects with its signing key"):
        check_nkey(public_text(signing.public_key()), "diabetes", "mercy", public, certified)


def test_an_nkey_is_certified_for_one_study_one_party_and_one_key():
    key, text = key_of(1), public_text(key_of(1).public_key())
    certified = certify_nkey(key, "diabetes", "mercy", PUBLIC)
    check_nkey(text, "diabetes", "mercy", PUBLIC, certified)
    other = Nkey(key_of(2)).public
    for values in (
        (text, "asthma", "mercy", PUBLIC),
        (text, "diabetes", "sinai", PUBLIC),
        (text, "diabetes", "mercy", other),
        (public_text(key_of(3).public_key()), "diabetes", "mercy", PUBLIC),
    ):
        with pytest.raises(InputError, match="is not certified by the signing key of"):
            check_nkey(*values, certified)


@pytest.mark.parametrize("label", [label for label in Label if label is not Label.NKEY])
def test_an_nkey_is_certified_by_no_signature_of_another_kind(label):
    key = key_of(1)
    content = json.dumps({"name": "mercy", "nkey": PUBLIC, "study": "diabetes"},
                         separators=(",", ":")).encode()  # fmt: skip
    values = public_text(key.public_key()), "diabetes", "mercy", PUBLIC
    check_nkey(*values, sign_labelled(key, Label.NKEY, content).hex())
    with pytest.raises(InputError, match="is not certified"):
        check_nkey(*values, sign_labelled(key, label, content).hex())


def test_an_nkey_that_another_signing_key_certified_is_refused(study, tmp_path):
    """By the coordinator that admits, and by everybody who reads a proposal."""
    made, (mercy, _) = study
    site, request = requested(made, tmp_path)
    forged = certify_nkey(key_of(77), made.name, "guys", request.nkey)
    with pytest.raises(InputError, match="nkey of guys is not certified"):
        admit(made, request.model_copy(update={"certified": forged}).signed(site.signing_key()))
    assert "guys" not in {one.participant.name for one in made.admitted()}
    signed = proposed(made)
    participants = list(signed.participants)
    forged = certify_nkey(made.signing_key(), made.name, "mercy", Nkey(key_of(78)).public)
    participants[0] = participants[0].model_copy(
        update={"nkey": Nkey(key_of(78)).public, "certified": forged}
    )
    with pytest.raises(InputError, match="nkey of mercy is not certified"):
        sign(
            made.name, signed.proposal, participants, coordinator=made.coordinator(),
            key=made.signing_key(), nonce="02", patience=60.0, release_abandoned=False,
        )  # fmt: skip
    planted = signed.model_copy(update={"participants": tuple(participants)})
    with pytest.raises(InputError, match="nkey of mercy is not certified"):
        SignedProposal.from_json(planted.to_json())
    with pytest.raises(PrivacyError, match="signature"):
        mercy.take_part(planted)


@pytest.mark.parametrize("what", ["nkey", "key"])
def test_a_key_of_another_party_is_not_admitted_as_an_nkey(study, tmp_path, what):
    made, _ = study
    for other in (made.coordinator(), made.members()[0].participant):
        text = other.nkey if what == "nkey" else nkey_text(bytes.fromhex(other.key))
        site, request = requested(made, tmp_path, name=f"guys-{other.name}")
        certified = certify_nkey(site.signing_key(), made.name, site.name, text)
        taken = request.model_copy(update={"nkey": text, "certified": certified})
        with pytest.raises(InputError, match=f"{other.name} has a key of guys"):
            admit(made, taken.signed(site.signing_key()))


def test_two_who_take_part_have_no_key_in_common(study):
    made, _ = study
    signed = proposed(made)
    mercy, sinai = signed.participants
    stolen = key_of(5)
    twice = sinai.model_copy(update={
        "key": public_text(stolen.public_key()), "nkey": mercy.nkey,
        "certified": certify_nkey(stolen, made.name, "sinai", mercy.nkey)})  # fmt: skip
    with pytest.raises(InputError, match="have the same key"):
        sign(
            made.name, signed.proposal, [mercy, twice], coordinator=made.coordinator(),
            key=made.signing_key(), nonce="02", patience=60.0, release_abandoned=False,
        )  # fmt: skip


# The hub


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    pytest.importorskip("nats")
    folder, port = tmp_path_factory.mktemp("hub"), free_port()
    study, sites = admitted_study(folder, port=port)
    signed = proposed(study)
    with running(study, port) as one:
        one.sites, one.signed = sites, signed
        yield one


def reason_for(link, *, seconds=0.4):
    """Why a party that has this link is not connected; it never is."""
    told = Told()
    asyncio.run(served(Talker(["a.b.answer.0"]), link, seconds=seconds, told=told))
    assert "connected" not in [name for name, _ in told]
    return told.reasons()[0]


class Borrowed(Nkey):
    """A key that is shown as another party's."""

    @property
    def public(self):
        return self.shown


def borrowed(shown, key):
    nkey = Borrowed(key)
    object.__setattr__(nkey, "shown", shown)
    return nkey


def test_a_connection_without_an_nkey_is_refused(hub):
    assert "does not know this key" in reason_for(hub.link(borrowed(None, key_of(1))))


def test_a_connection_that_answers_no_challenge_is_refused(hub):
    """Spoken by hand: with the public nkey of a site, and no signature."""
    public = hub.signed.participants[0].nkey

    async def spoken():
        context = client_context(hub.study.invitation.certificate)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", hub.port, ssl=context, server_hostname="hub"
        )
        info = json.loads((await reader.readline()).removeprefix(b"INFO "))
        said = {"verbose": False, "pedantic": False, "nkey": public}
        writer.write(b"CONNECT " + json.dumps(said).encode() + b"\r\nPING\r\n")
        line = await reader.readline()
        writer.close()
        return info, line

    info, line = asyncio.run(spoken())
    assert info["auth_required"] is True
    assert info["nonce"]
    assert line == b"-ERR 'Authorization Violation'\r\n"


def test_an_nkey_that_no_proposal_names_is_refused(hub):
    assert "does not know this key" in reason_for(hub.link(Nkey(key_of(40))))


def test_the_public_nkey_of_another_party_does_not_connect_without_its_secret(hub):
    for shown in (hub.signed.participants[1].nkey, hub.study.nkey().public):
        link = hub.link(borrowed(shown, hub.sites[0].nkey().key))
        assert "does not know this key" in reason_for(link)


@pytest.mark.slow
def test_a_signing_key_connects_nobody(hub):
    for party in (hub.study, *hub.sites):
        assert "does not know this key" in reason_for(hub.link(Nkey(party.signing_key())))


class Middle:
    """A man in the middle: TLS with a certificate of its own, and all that it reads of parties."""

    def __init__(self, folder, hub):
        key, self.certificate = new_hub()
        write_key(folder / "middle.key", key)
        (folder / "middle.pem").write_text(self.certificate)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(folder / "middle.pem", folder / "middle.key")
        self.hub, self.read = hub, []

    async def _one(self, reader, writer):
        trusted = client_context(self.hub.study.invitation.certificate)
        there, back = await asyncio.open_connection(
            "127.0.0.1", self.hub.port, ssl=trusted, server_hostname="hub"
        )
        await asyncio.gather(self._pump(reader, back, self.read), self._pump(there, writer, []))

    async def _pump(self, reader, writer, read):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                read.append(data)
                writer.write(data)
                await writer.drain()
        writer.close()

    async def meet(self, certificate):
        """What a site is told that trusts a certificate and comes this way."""
        server = await asyncio.start_server(self._one, "127.0.0.1", 0, ssl=self.context)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        link = Link(address, certificate, self.hub.sites[0].nkey())
        subjects, told = self.hub.signed.subjects, Told()
        try:
            party = Talker([subjects.answer(0)], subjects.of_agent(0, ())[1])
            await served(party, link, seconds=1.0, told=told)
        finally:
            server.close()
        return told


def test_a_hub_with_another_certificate_is_sent_nothing(hub, tmp_path):
    middle = Middle(tmp_path, hub)
    with pytest.raises(InputError, match="is not that of this study"):
        asyncio.run(middle.meet(hub.study.invitation.certificate))
    assert middle.read == []


@pytest.mark.slow
def test_a_party_that_pinned_nothing_would_be_read_by_the_man_in_the_middle(hub, tmp_path):
    """The planted fault of the test above: its certificate is the one that is accepted."""
    middle = Middle(tmp_path, hub)
    told = asyncio.run(middle.meet(middle.certificate))
    assert "connected" in [name for name, _ in told]
    assert hub.sites[0].nkey().public.encode() in b"".join(middle.read)


def test_a_certificate_of_an_invitation_is_one_and_nothing_else():
    _, one = new_hub()
    _, other = new_hub()
    check_certificate(one)
    for text in ("", one + other, one + "\n", "x" + one, one[:-30], one.replace("\n", "\r\n")):
        with pytest.raises(InputError, match="the hub's certificate cannot be read"):
            check_certificate(text)
