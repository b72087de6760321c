//! Accounts at authorities: made once, kept where the instances share their state, and made anew where the
//! authority has lost them. It does not know orders.

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use instant_acme::{Account, AccountCredentials, ExternalAccountKey, NewAccount};
use serde::{Deserialize, Serialize};

use super::config::Authority;
use super::failure::AcmeFailure;
use super::http::{AcmeTransport, LastAnswer};
use crate::sealing::Sealer;
use crate::shared_state::SharedState;

/// The accounts that the instances share.
#[derive(Clone)]
pub(super) struct Accounts {
    pub(super) shared: SharedState,
    /// Encrypts the keys of accounts where they are kept.
    pub(super) sealer: Sealer,
    pub(super) email: Option<String>,
    pub(super) transport: AcmeTransport,
}

/// An account as it is kept.
#[derive(Serialize, Deserialize)]
struct StoredAccount {
    /// The address that the authority has.
    email: Option<String>,
    credentials: AccountCredentials,
}

impl Accounts {
    /// The account at `authority`, made if there is none yet.
    ///
    /// # Errors
    /// The authority cannot be reached or refuses, or the account cannot be kept.
    pub(super) async fn open(&self, authority: &Authority) -> Result<(Account, LastAnswer), AcmeFailure> {
        match self.kept(authority)? {
            Some(kept) => self.restore(authority, kept).await,
            None => self.create(authority).await,
        }
    }

    /// Forgets the account, which the authority does not know.
    pub(super) async fn forget(&self, authority: &Authority) -> Result<(), AcmeFailure> {
        let removed = self.shared.remove(&path(authority)).await;
        removed
            .map(drop)
            .map_err(|reason| AcmeFailure::new(format!("the account cannot be removed: {reason}")))
    }

    fn kept(&self, authority: &Authority) -> Result<Option<StoredAccount>, AcmeFailure> {
        let Some(document) = self.shared.get(&path(authority)) else { return Ok(None) };
        let text = self
            .sealer
            .open_text(&document.text)
            .map_err(|fault| AcmeFailure::new(format!("the account cannot be read: {fault}")))?;
        let kept = serde_json::from_str(&text);
        kept.map(Some).map_err(|fault| AcmeFailure::new(format!("the account cannot be read: {fault}")))
    }

    async fn restore(
        &self,
        authority: &Authority,
        kept: StoredAccount,
    ) -> Result<(Account, LastAnswer), AcmeFailure> {
        let (client, last) = self.transport.client(&authority.directory);
        let builder = Account::builder_with_http(client);
        // The library gives credentials back only when it makes them, so that they are written down once more
        // first.
        let text =
            serde_json::to_string(&kept.credentials).map_err(|fault| AcmeFailure::new(fault.to_string()))?;
        let account = builder.from_credentials(kept.credentials).await;
        let account = account.map_err(|fault| AcmeFailure::of(&fault, &last))?;
        if kept.email != self.email {
            let contact = self.email.as_ref().map(|email| format!("mailto:{email}"));
            let contact: Vec<&str> = contact.as_deref().into_iter().collect();
            account.update_contacts(&contact).await.map_err(|fault| AcmeFailure::of(&fault, &last))?;
            let credentials =
                serde_json::from_str(&text).map_err(|fault| AcmeFailure::new(fault.to_string()))?;
            self.keep(authority, &StoredAccount { email: self.email.clone(), credentials }).await?;
        }
        Ok((account, last))
    }

    async fn create(&self, authority: &Authority) -> Result<(Account, LastAnswer), AcmeFailure> {
        let (client, last) = self.transport.client(&authority.directory);
        let contact = self.email.as_ref().map(|email| format!("mailto:{email}"));
        let contact: Vec<&str> = contact.as_deref().into_iter().collect();
        let new =
            NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let bound = authority.external_account.as_ref();
        let bound = bound.map(|(id, key)| ExternalAccountKey::new(id.clone(), key));
        let made =
            Account::builder_with_http(client).create(&new, authority.directory.clone(), bound.as_ref());
        let (account, credentials) = made.await.map_err(|fault| AcmeFailure::of(&fault, &last))?;
        self.keep(authority, &StoredAccount { email: self.email.clone(), credentials }).await?;
        tracing::info!(authority = %authority.directory, "made an account at a certificate authority");
        Ok((account, last))
    }

    async fn keep(&self, authority: &Authority, kept: &StoredAccount) -> Result<(), AcmeFailure> {
        let text = serde_json::to_string(kept).map_err(|fault| AcmeFailure::new(fault.to_string()))?;
        let written = self.shared.put(&path(authority), &self.sealer.seal_text(&text), None).await;
        match written {
            Ok(true) => Ok(()),
            Ok(false) => Err(AcmeFailure::new("another instance has made an account at the same time")),
            Err(reason) => Err(AcmeFailure::new(format!("the account cannot be kept: {reason}"))),
        }
    }
}

/// Where the account of an authority is kept.
fn path(authority: &Authority) -> String {
    let digest = digest(&SHA256, authority.directory.as_bytes());
    format!("accounts/{}", HEXLOWER.encode(&digest.as_ref()[..16]))
}
