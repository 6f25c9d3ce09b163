//! What a header imports: the compiled modules that Lean reads for it, opened once, each declaration read when it is asked for.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;
use crate::decode::{self, Constant, Decoder, Kind, Memory};
use crate::olean::{Image, Object};
use crate::store::{Map, NameId, Store};

/// The declarations of a set of modules and of all that these import.
pub struct Library {
    modules: Vec<Module>,
    /// Where the declaration of a name is, by the name's digest.
    places: HashMap<u64, (u32, Object)>,
    /// What declarations rest on, of those that were asked for.
    rests: Mutex<HashMap<u64, Arc<Rests>>>,
}

/// What a declaration rests on.
struct Rests {
    /// Its name, where it is an axiom itself.
    axiom: Option<String>,
    /// What its terms name.
    on: Vec<u64>,
}

struct Module {
    image: Image,
}

impl Library {
    /// Opens the modules `imports` and all that they import, from the first of `folders` that has each.
    ///
    /// # Errors
    /// [`Error::Unreadable`] where a module is missing, or is not compiled as it should be.
    pub fn open(folders: &[PathBuf], imports: &[String]) -> Result<Self, Error> {
        let mut library = Self {
            modules: Vec::new(),
            places: HashMap::new(),
            rests: Mutex::default(),
        };
        let mut seen: HashMap<String, ()> = HashMap::new();
        let mut open: Vec<String> = imports.to_vec();
        while let Some(module) = open.pop() {
            if seen.insert(module.clone(), ()).is_some() {
                continue;
            }
            let image = find(folders, &module)?;
            open.extend(decode::imports(&image)?);
            library
                .add(image)
                .map_err(|error| Error::Unreadable(format!("the module {module}: {error}")))?;
        }
        Ok(library)
    }

    fn add(&mut self, image: Image) -> Result<(), Error> {
        let at = u32::try_from(self.modules.len()).unwrap_or(u32::MAX);
        // Names are read into a store of their own, since a check needs few of them.
        let mut store = Store::default();
        let mut memory = Memory::default();
        for (name, constant) in decode::contents(&image)? {
            let mut decoder = Decoder {
                image: &image,
                store: &mut store,
                memory: &mut memory,
            };
            let name = decoder.name(name)?;
            self.places.insert(store.digest(name), (at, constant));
        }
        self.modules.push(Module { image });
        Ok(())
    }

    /// How many declarations there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.places.len()
    }

    /// Where the declaration of a name is.
    pub(crate) fn place(&self, store: &Store, name: NameId) -> Option<(u32, Object)> {
        self.places.get(&store.digest(name)).copied()
    }

    /// The axioms that declarations rest on, by everything that they name.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub(crate) fn axioms(&self, store: &Store, names: &[NameId]) -> Result<Vec<String>, Error> {
        let mut found: BTreeSet<String> = BTreeSet::new();
        let mut open: Vec<u64> = names.iter().map(|name| store.digest(*name)).collect();
        let mut seen: HashSet<u64> = HashSet::new();
        let mut own = Store::default();
        let mut memory = Memories::default();
        while let Some(digest) = open.pop() {
            if !seen.insert(digest) {
                continue;
            }
            let rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
            let known = rests.get(&digest).cloned();
            drop(rests);
            let rests = match known {
                Some(known) => known,
                None => {
                    let Some(place) = self.places.get(&digest) else {
                        continue;
                    };
                    // A store that has grown is of no more use to the next declarations than an empty one.
                    if own.size() > 1 << 20 {
                        own = Store::default();
                        memory = Memories::default();
                    }
                    let constant = self.read(*place, &mut own, &mut memory)?;
                    let names = own.constants_of(&constant.terms())?;
                    let rests = Arc::new(Rests {
                        axiom: (constant.kind == Kind::Axiom).then(|| own.whole(constant.name)),
                        on: names.iter().map(|name| own.digest(*name)).collect(),
                    });
                    let mut known = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
                    known.insert(digest, Arc::clone(&rests));
                    rests
                }
            };
            found.extend(rests.axiom.clone());
            open.extend(rests.on.iter().filter(|digest| !seen.contains(digest)));
        }
        Ok(found.into_iter().collect())
    }

    /// Every declaration's place.
    pub fn places(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.places.values().copied()
    }

    /// Reads a declaration.
    pub(crate) fn read(
        &self,
        (module, object): (u32, Object),
        store: &mut Store,
        memory: &mut Memories,
    ) -> Result<Constant, Error> {
        let Some(Module { image }) = self.modules.get(module as usize) else {
            return Err(Error::Unreadable("there is no such module".to_owned()));
        };
        let mut decoder = Decoder {
            image,
            store,
            memory: memory.0.entry(module).or_default(),
        };
        decoder.constant(object)
    }
}

/// What was read of each module of a library into one store.
#[derive(Default)]
pub(crate) struct Memories(Map<u32, Memory>);

/// The compiled form of a module.
fn find(folders: &[PathBuf], module: &str) -> Result<Image, Error> {
    let relative: PathBuf = module.split('.').collect();
    let file = folders
        .iter()
        .map(|folder| folder.join(&relative).with_extension("olean"))
        .find(|file| file.is_file())
        .ok_or_else(|| {
            Error::Unreadable(format!(
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

/// What a module of Lean's module system keeps beside its public part, in the order in which one refers to the other.
#[must_use]
pub fn parts(file: &Path) -> [PathBuf; 2] {
    [
        file.with_extension("olean.server"),
        file.with_extension("olean.private"),
    ]
}
