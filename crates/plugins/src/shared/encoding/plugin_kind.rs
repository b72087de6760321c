//! The attributes and the declaration that all plugins of codings have: those of
//! [`EncodingRules`], and the plugin's own beside them. It knows no coding.

use std::sync::Arc;

use exchange::plugin::{Build, Plugin, PluginKind, PluginPhase};
use serde_json::Value;

use super::encoder::Compressor;
use super::plugin::Compression;
use super::rules::EncodingRules;
use crate::shared::attributes::Attribute;
use crate::shared::config;

/// The configuration of a coding's plugin, which [`coding_attributes!`] defines.
pub(crate) trait CodingConfig: Attribute + 'static {
    /// The coding.
    type Coding: Compressor;

    /// The settings of the coding, and the rules for responses.
    ///
    /// # Errors
    /// The misfit, a sentence.
    fn compile_coding(self) -> Result<(<Self::Coding as Compressor>::Settings, EncodingRules), String>;
}

/// The kind of the plugin `name`, which runs at `priority` and of which `page` is the source text.
pub(crate) const fn coding_kind<C: CodingConfig>(
    name: &'static str,
    priority: i32,
    page: &'static str,
) -> PluginKind {
    PluginKind::new(name, priority, &[PluginPhase::Encode], C::schema, build_coding::<C>).documented(page)
}

fn build_coding<C: CodingConfig>(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let (settings, rules) = config::parse_config::<C>(config)?.compile_coding()?;
    Ok(Compression::<C::Coding>::plugin(rules, settings))
}

/// Defines `Config` of a coding's plugin. Its own attributes stand in front of `http_version` and behind it,
/// because the reference page keeps the order; the function computes the settings of the coding from them.
macro_rules! coding_attributes {
    ($coding:ty, $settings:path; { $($front:tt)* } { $($behind:tt)* }) => {
        $crate::shared::attributes::attributes! {
            struct Config {
                /// The media types of bodies that are compressed, or `*` for all.
                types: $crate::shared::encoding::MediaTypes = $crate::shared::encoding::MediaTypes::html();
                /// The shortest body that is compressed, in bytes; it counts for responses that tell their
                /// length.
                min_length: u64 = 20, { "minimum": 1 };
                $($front)*
                /// The lowest HTTP version of requests that are answered compressed.
                http_version: $crate::shared::encoding::HttpVersion
                    = $crate::shared::encoding::HttpVersion::Http11;
                $($behind)*
                /// Whether responses say `Vary: Accept-Encoding`.
                vary: Option<bool>;
            }
        }

        impl $crate::shared::encoding::CodingConfig for Config {
            type Coding = $coding;

            fn compile_coding(
                self,
            ) -> Result<
                (
                    <$coding as $crate::shared::encoding::Compressor>::Settings,
                    $crate::shared::encoding::EncodingRules,
                ),
                String,
            > {
                let settings = $settings(&self)?;
                let rules = $crate::shared::encoding::EncodingRules {
                    types: self.types,
                    min_length: self.min_length,
                    http_version: self.http_version,
                    vary: self.vary.unwrap_or_default(),
                };
                Ok((settings, rules))
            }
        }
    };
}
pub(crate) use coding_attributes;
