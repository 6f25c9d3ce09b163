//! The compiled modules that a header imports. They are opened once; a declaration is read when a check needs it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::declaration::{ConstantInfo, Kind};
use crate::decode::{self, DecodeCache, Decoder};
use crate::olean::{Image, Object};
use crate::term_store::{Map, NameId, TermStore};
use crate::{Error, unreadable};

/// The declarations of a set of modules and of all that these import.
pub struct Library {
    modules: Vec<Image>,
    /// The place of each declaration, by the digest of its name.
    places: HashMap<u64, (u32, Object)>,
    /// The direct dependencies of declarations, computed when they are needed, by the digest of the name.
    dependencies: Mutex<HashMap<u64, Arc<Dependencies>>>,
}

/// The direct dependencies of a declaration.
struct Dependencies {
    /// Its name, if it is an axiom itself.
    axiom: Option<String>,
    /// The digests of the names in its terms.
    names: Vec<u64>,
}

impl Library {
    /// Opens the modules `imports` and everything that they import. Each module comes from the first of `folders` that has it.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if a module is missing, or is not a valid compiled module.
    pub fn open(folders: &[PathBuf], imports: &[String]) -> Result<Self, Error> {
        let mut library = Self {
            modules: Vec::new(),
            places: HashMap::new(),
            dependencies: Mutex::default(),
        };
        let mut seen: HashSet<String> = HashSet::new();
        let mut open: Vec<String> = imports.to_vec();
        while let Some(module) = open.pop() {
            if !seen.insert(module.clone()) {
                continue;
            }
            let image = find(folders, &module)?;
            open.extend(decode::imports(&image)?);
            library
                .add(image)
                .map_err(|error| unreadable(format!("the module {module}: {error}")))?;
        }
        Ok(library)
    }

    fn add(&mut self, image: Image) -> Result<(), Error> {
        let at = u32::try_from(self.modules.len()).unwrap_or(u32::MAX);
        // Names go into a store of their own, since a check needs few of them.
        let mut store = TermStore::default();
        let mut cache = DecodeCache::default();
        for (name, constant) in decode::contents(&image)? {
            let mut decoder = Decoder {
                image: &image,
                store: &mut store,
                cache: &mut cache,
            };
            let name = decoder.name(name)?;
            self.places.insert(store.digest(name), (at, constant));
        }
        self.modules.push(image);
        Ok(())
    }

    /// The number of declarations.
    #[must_use]
    pub fn size(&self) -> usize {
        self.places.len()
    }

    /// The place of the declaration of a name.
    pub(crate) fn place(&self, store: &TermStore, name: NameId) -> Option<(u32, Object)> {
        self.places.get(&store.digest(name)).copied()
    }

    /// The axioms that declarations depend on, directly or through other declarations.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub(crate) fn axioms(&self, store: &TermStore, names: &[NameId]) -> Result<Vec<String>, Error> {
        let mut found: BTreeSet<String> = BTreeSet::new();
        let mut open: Vec<u64> = names.iter().map(|name| store.digest(*name)).collect();
        let mut seen: HashSet<u64> = HashSet::new();
        let mut own = TermStore::default();
        let mut cache = DecodeCaches::default();
        while let Some(digest) = open.pop() {
            if !seen.insert(digest) {
                continue;
            }
            let known = self.known_dependencies().get(&digest).cloned();
            let dependencies = match known {
                Some(known) => known,
                None => {
                    let Some(place) = self.places.get(&digest) else {
                        continue;
                    };
                    // A large store is no more useful to the next declarations than an empty one.
                    if own.size() > 1 << 20 {
                        own = TermStore::default();
                        cache = DecodeCaches::default();
                    }
                    let constant = self.read(*place, &mut own, &mut cache)?;
                    let names = own.constants_of(&constant.terms())?;
                    let dependencies = Arc::new(Dependencies {
                        axiom: (constant.kind == Kind::Axiom).then(|| own.whole(constant.name)),
                        names: names.iter().map(|name| own.digest(*name)).collect(),
                    });
                    self.known_dependencies()
                        .insert(digest, Arc::clone(&dependencies));
                    dependencies
                }
            };
            found.extend(dependencies.axiom.clone());
            let names = dependencies.names.iter();
            open.extend(names.filter(|digest| !seen.contains(digest)));
        }
        Ok(found.into_iter().collect())
    }

    fn known_dependencies(&self) -> MutexGuard<'_, HashMap<u64, Arc<Dependencies>>> {
        let known = self.dependencies.lock();
        known.unwrap_or_else(PoisonError::into_inner)
    }

    /// The places of all declarations.
    pub fn places(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.places.values().copied()
    }

    /// Reads a declaration.
    pub(crate) fn read(
        &self,
        (module, object): (u32, Object),
        store: &mut TermStore,
        cache: &mut DecodeCaches,
    ) -> Result<ConstantInfo, Error> {
        let Some(image) = self.modules.get(module as usize) else {
            return Err(unreadable("there is no such module"));
        };
        let mut decoder = Decoder {
            image,
            store,
            cache: cache.0.entry(module).or_default(),
        };
        decoder.constant(object)
    }
}

/// The decoded objects of each module of a library, in one store.
#[derive(Default)]
pub(crate) struct DecodeCaches(Map<u32, DecodeCache>);

/// Finds and opens a compiled module.
fn find(folders: &[PathBuf], module: &str) -> Result<Image, Error> {
    let relative: PathBuf = module.split('.').collect();
    let file = folders
        .iter()
        .map(|folder| folder.join(&relative).with_extension("olean"))
        .find(|file| file.is_file())
        .ok_or_else(|| {
            unreadable(format!(
                "there is no compiled module {module} in {}",
                folders
                    .iter()
                    .map(|folder| folder.display().to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            ))
        })?;
    let image = Image::map(&[&file])?;
    let parts = parts(&file);
    if decode::is_module(&image) && parts.iter().all(|part| part.is_file()) {
        return Image::map(&[&file, &parts[0], &parts[1]]);
    }
    Ok(image)
}

/// The modules that a compiled module imports.
///
/// # Errors
/// [`Error::Unreadable`].
pub fn imports(files: Vec<Vec<u8>>) -> Result<Vec<String>, Error> {
    decode::imports(&Image::read(files)?)
}

/// The files of a module of Lean's module system besides its public part. A file refers to those before it.
#[must_use]
pub fn parts(file: &Path) -> [PathBuf; 2] {
    [
        file.with_extension("olean.server"),
        file.with_extension("olean.private"),
    ]
}
